"""Which tool a configuration is of, told by its keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chipwise.catalogue.tools import harmless_keys
from chipwise.configs import (
    axolotl,
    litgpt,
    llama_factory,
    ms_swift,
    torchtitan,
    torchtune,
)
from chipwise.configs.marked import Marked, read_file
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
)


def read_source(source: str) -> tuple[Reading, ...]:
    """The configurations that a file holds.

    Args:
        source: path of the file.

    Raises:
        DataFileError: unreadable, broken, or of no kind that is known.
        UsageError: keys that contradict one another.
    """
    marked = read_file(Path(source))
    for kind in KINDS:
        if kind.looks_like(marked):
            return (kind.read(marked).close(harmless_keys(kind.name)),)
    looked = "; ".join(f"{kind.name}: {kind.tells}" for kind in KINDS)
    text = _("{file}: no configuration of a kind that is known; looked for {kinds}")
    raise DataFileError("unknown-config", text.format(file=marked.name, kinds=looked))
