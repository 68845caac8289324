"""Which tool a configuration is of, told by its keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chipwise.catalogue.tools import harmless_keys
from chipwise.configs import (
    accelerate,
    axolotl,
    deepspeed,
    hf_trainer,
    litgpt,
    llama_factory,
    ms_swift,
    torchtitan,
    torchtune,
)
from chipwise.configs.command import NAME, is_command, is_script, read_command
from chipwise.configs.marked import SYNTAXES, Marked, read_text, text_of
from chipwise.configs.reading import Reading
from chipwise.errors import DataFileError
from chipwise.i18n import _


@dataclass(frozen=True)
class Kind:
    """One kind of file."""

    name: str
    looks_like: Callable[[Marked], bool]
    read: Callable[[Marked], Reading]
    tells: str
    """What a file of this kind has, for the error about one of no kind."""


KINDS = (
    Kind("axolotl", axolotl.looks_like, axolotl.read, "base_model, micro_batch_size"),
    Kind("torchtune", torchtune.looks_like, torchtune.read, "model._component_: torchtune…"),
    Kind("torchtitan", torchtitan.looks_like, torchtitan.read, "[model] flavor, [training]"),
    Kind("litgpt", litgpt.looks_like, litgpt.read, "checkpoint_dir, train.micro_batch_size"),
    Kind(
        "llama-factory",
        llama_factory.looks_like,
        llama_factory.read,
        "model_name_or_path, finetuning_type",
    ),
    Kind("ms-swift", ms_swift.looks_like, ms_swift.read, "model, tuner_type"),
    Kind("deepspeed", deepspeed.looks_like, deepspeed.read, "zero_optimization"),
    Kind("accelerate", accelerate.looks_like, accelerate.read, "distributed_type"),
    Kind(
        "hf-trainer",
        hf_trainer.looks_like,
        hf_trainer.read,
        "model_name_or_path, per_device_train_batch_size",
    ),
)


def read_source(source: str) -> tuple[Reading, ...]:
    """The configurations that a source holds.

    Args:
        source: path of a configuration file or of a script, or a command line.

    Raises:
        DataFileError: unreadable, broken, or of no kind that is known.
        UsageError: keys that contradict one another.
    """
    if is_command(source):
        return read_command(NAME, source, Path(), _read_path)
    return _read_path(Path(source))


def _read_path(path: Path) -> tuple[Reading, ...]:
    text = text_of(path)
    if is_script(path, text):
        return read_command(str(path), text, path.parent, _read_path)
    marked = read_text(str(path), text, SYNTAXES.get(path.suffix.lower()))
    for kind in KINDS:
        if kind.looks_like(marked):
            found = kind.read(marked)
            return (found.close(harmless_keys(found.tool)),)
    looked = "; ".join(f"{kind.name}: {kind.tells}" for kind in KINDS)
    text = _("{file}: no configuration of a kind that is known; looked for {kinds}")
    raise DataFileError("unknown-config", text.format(file=marked.name, kinds=looked))
