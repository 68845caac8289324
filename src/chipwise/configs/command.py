"""A command line, or a script with one in it, as a job: parsed, never executed.

What a launcher says (devices, an engine's file) and what the trainer behind it says are read
apart; configuration files that a command names are read where they exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chipwise.catalogue.tools import harmless_keys
from chipwise.configs import accelerate, axolotl, hf_trainer, llama_factory, ms_swift, torchtune
from chipwise.configs.flags import count_in, launcher_options, trainer_flags
from chipwise.configs.marked import Entry, Marked
from chipwise.configs.reading import Reading
from chipwise.configs.shell import Command, Word, commands
from chipwise.errors import DataFileError
from chipwise.i18n import _

NAME = "command"
"""What errors and patches call a command that was given as text."""
_SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch", ".zsh")
_FILES = (".yaml", ".yml", ".json", ".toml")
_WRAPPERS = ("env", "nohup", "time", "exec", "sudo", "srun", "uv", "poetry", "conda", "run")
_PYTHON = re.compile(r"python[\d.]*$")
_SCRIPT_LOSSES = ("dpo", "orpo", "kto", "grpo", "reward", "ppo", "gkd")
LAUNCHERS = (
    *("torchrun", "accelerate launch", "deepspeed", "python -m torch.distributed.run"),
    *("python train.py", "llamafactory-cli train", "axolotl train", "tune run", "swift sft"),
    *("trl sft",),
)


def is_command(source: str) -> bool:
    """Whether a source is a command line and not a path: it has several words."""
    return " " in source.strip() and not Path(source).exists()


def is_script(path: Path, text: str) -> bool:
    """Whether a file is a shell script."""
    return path.suffix.lower() in _SUFFIXES or text.startswith(("#!/bin/", "#!/usr/bin/env bash"))


def read_command(
    name: str, text: str, folder: Path, read_file: Callable[[Path], Sequence[Reading]]
) -> tuple[Reading, ...]:
    """The configurations that the first launcher of a script stands for.

    Args:
        name: of the script, for places.
        text: its text.
        folder: where files that it names are looked for, beside the current one.
        read_file: reads a configuration file.

    Raises:
        DataFileError: no launcher in it, or a value that is not understood.
        UsageError: flags that contradict one another.
    """
    for command in commands(name, text):
        run = _Run(name, text, folder, read_file, command)
        found = run.readings()
        if found is not None:
            return tuple(found)
    looked = ", ".join(LAUNCHERS)
    told = _("{name}: no command that starts a training; looked for {known}")
    raise DataFileError("unknown-config", told.format(name=name, known=looked))


@dataclass
class _Run:
    """One command of a script."""

    name: str
    text: str
    folder: Path
    read_file: Callable[[Path], Sequence[Reading]]
    command: Command

    def readings(self) -> list[Reading] | None:
        """What it says; None where it starts no training."""
        words = list(self.command.words)
        while words and Path(words[0].text).name in _WRAPPERS:
            words = words[1:]
        if not words:
            return None
        head, rest = Path(words[0].text).name, words[1:]
        second = rest[0].text if rest else ""
        if head == "torchrun":
            return self._torchrun(rest)
        if head == "accelerate" and second == "launch":
            return self._accelerate(rest[1:])
        if head == "deepspeed":
            return self._deepspeed(rest)
        if head in _TOOLS and second in _VERBS[head]:
            return self._tool(head, second, rest[1:])
        if _PYTHON.match(head):
            return self._python(rest)
        return None

    # -- launchers -----------------------------------------------------------------------

    def _python(self, words: list[Word]) -> list[Reading] | None:
        if len(words) > 1 and words[0].text == "-m":
            module = words[1].text
            if module in ("torch.distributed.run", "torch.distributed.launch"):
                return self._torchrun(words[2:])
            if module == "axolotl.cli.train":
                return self._tool("axolotl", "train", words[2:])
            if module.startswith(("accelerate.commands.launch",)):
                return self._accelerate(words[2:])
            return self._script(words[1:])
        if words and words[0].text.endswith(".py"):
            found = self._script(words)
            return found if any(one.taken for one in found) else None
        return None

    def _torchrun(self, words: list[Word]) -> list[Reading]:
        options, rest = launcher_options(words)
        each = count_in(options, "nproc_per_node"), "nproc_per_node"
        reading = self._launched("accelerate", options, each, count_in(options, "nnodes"))
        return [reading, *self._script(rest)]

    def _deepspeed(self, words: list[Word]) -> list[Reading]:
        options, rest = launcher_options(words)
        each, key = count_in(options, "num_gpus"), "num_gpus"
        places = options.get("include") or options.get("i")
        if each is None and places is not None:
            lists = re.findall(r":([\d,]+)", str(places.value))
            each = sum(len(one.split(",")) for one in lists) or None
            key = "include" if "include" in options else "i"
        reading = self._launched("deepspeed", options, (each, key), count_in(options, "num_nodes"))
        return [reading, *self._script(rest)]

    def _launched(
        self, tool: str, options: dict[str, Entry], each: tuple[int | None, str], nodes: int | None
    ) -> Reading:
        """A launcher's reading: devices of a node by its own flag, else by the environment."""
        reading = Reading(Marked(self.name, self.text, "shell", options), tool)
        reading.use(*options)
        count, key = each if each[0] else self._visible() or (None, "")
        if count:
            _devices(reading, count * (nodes or 1), key)
        return reading

    def _accelerate(self, words: list[Word]) -> list[Reading]:
        options, rest = launcher_options(words)
        readings: list[Reading] = []
        if entry := options.pop("config_file", None):
            readings += self._named(str(entry.value), entry)
        launched = {_ACCELERATE.get(key, key): entry for key, entry in options.items()}
        marked = Marked(self.name, self.text, "shell", launched)
        kind = {"use_fsdp": "FSDP", "use_deepspeed": "DEEPSPEED"}
        for key, word in kind.items():
            if key in options:
                launched["distributed_type"] = Entry(word, options[key].line, 0, 0)
                launched.pop(key)
        own = accelerate.read(marked)
        files = {one.taken["devices"].value for one in readings if "devices" in one.taken}
        if files and "devices" in own.taken:  # a flag wins over the file
            for one in readings:
                one.taken.pop("devices", None)
        elif not files and "devices" not in own.taken and (seen := self._visible()):
            _devices(own, *seen)
        return [*readings, own.close(("*",)), *self._script(rest)]

    def _visible(self) -> tuple[int, str] | None:
        """Devices that the environment counts, and the name that says so."""
        known = self.command.variables
        listed = known.get("CUDA_VISIBLE_DEVICES", "")
        if re.fullmatch(r"\d+(,\d+)*", listed):
            return len(listed.split(",")), "CUDA_VISIBLE_DEVICES"
        each = known.get("NPROC_PER_NODE", "")
        return (int(each), "NPROC_PER_NODE") if each.isdecimal() and int(each) else None

    # -- trainers ------------------------------------------------------------------------

    def _script(self, words: list[Word]) -> list[Reading]:
        """The script that a launcher starts, with its flags."""
        if not words:
            return []
        name = words[0].text
        if name in ("-m", "--module") and len(words) > 1:
            words, name = words[1:], words[1].text
        if name == "axolotl.cli.train":
            return self._tool("axolotl", "train", words[1:])
        if Path(name).name in ("llamafactory-cli", "src/train.py") and len(words) > 1:
            return self._tool("llamafactory-cli", "train", words[2:])
        flags = trainer_flags(words[1:])
        readings: list[Reading] = []
        entry = flags.entries.pop("config", None)
        if entry is not None:
            readings += self._named(str(entry.value), entry)
        for word in flags.loose:
            if Path(word.text).suffix in _FILES:
                readings += self._named(word.text, Entry(word.text, word.line, 0, 0))
        marked = Marked(self.name, self.text, "shell", flags.entries)
        own = self._trainer(marked, name)
        _yield_to(own, readings)
        deepspeed = flags.entries.get("deepspeed")
        if deepspeed is not None and isinstance(deepspeed.value, str):
            readings += self._deepspeed_file(own, deepspeed)
        return [*readings, own]

    def _trainer(self, marked: Marked, script: str) -> Reading:
        stem = Path(script).stem.lower()
        loss = next((one for one in _SCRIPT_LOSSES if one in stem.split("_") or stem == one), None)
        if llama_factory.looks_like(marked):
            return llama_factory.read(marked).close(harmless_keys(llama_factory.TOOL))
        guess = (
            hf_trainer.read_as(marked, hf_trainer.TRL, loss) if loss else hf_trainer.read(marked)
        )
        return guess.close(harmless_keys(guess.tool))

    def _deepspeed_file(self, own: Reading, entry: Entry) -> list[Reading]:
        """The engine's file that the trainer names, where it is there."""
        path = self._found(str(entry.value))
        if path is None:
            return []
        own.notes = [note for note in own.notes if str(entry.value) not in note]
        for name in ("shard", "offload"):
            if name in own.taken and own.taken[name].hint:
                del own.taken[name]
        return list(self.read_file(path))

    def _tool(self, head: str, verb: str, words: list[Word]) -> list[Reading]:
        """A tool's own command: a configuration file, and flags that win over it."""
        tool = _TOOLS[head]
        readings: list[Reading] = []
        if head == "tune":
            options, words = launcher_options(words)
            each = count_in(options, "nproc_per_node"), "nproc_per_node"
            readings.append(self._launched(tool, options, each, count_in(options, "nnodes")))
        flags = trainer_flags(words)
        for word in flags.loose:
            if Path(word.text).suffix in _FILES:
                readings += self._named(word.text, Entry(word.text, word.line, 0, 0))
        entry = flags.entries.pop("config", None)
        if entry is not None:
            readings += self._named(str(entry.value), entry)
        marked = Marked(self.name, self.text, "shell", flags.entries)
        own = _own(tool, verb, marked, alone=not any(one.taken for one in readings))
        own.close(harmless_keys(tool))
        if seen := self._visible():
            _devices(own, *seen)
        _yield_to(own, readings)
        return [*readings, own]

    # -- files ---------------------------------------------------------------------------

    def _found(self, name: str) -> Path | None:
        for path in (self.folder / name, Path(name)):
            if path.is_file():
                return path
        return None

    def _named(self, name: str, entry: Entry) -> list[Reading]:
        """The configurations of a file that a command names; a note where it is not there."""
        path = self._found(name)
        if path is not None:
            return list(self.read_file(path))
        found = Reading(Marked(self.name, self.text, "shell", {"config": entry}), "accelerate")
        found.named_file("config")
        return [found]


_TOOLS = {
    **{"llamafactory-cli": "llama-factory", "axolotl": "axolotl", "tune": "torchtune"},
    **{"swift": "ms-swift", "trl": "trl"},
}
_VERBS = {
    "llamafactory-cli": ("train",),
    "axolotl": ("train",),
    "tune": ("run",),
    "swift": ("sft", "pt", "rlhf"),
    "trl": ("sft", "dpo", "orpo", "kto", "grpo", "reward", "rloo"),
}
_ACCELERATE = {
    **{name: f"fsdp_config.{name}" for name in (
        "fsdp_sharding_strategy", "fsdp_offload_params", "fsdp_activation_checkpointing",
        "fsdp_version", "fsdp_reshard_after_forward",
    )},
    **{name: f"deepspeed_config.{name}" for name in (
        "zero_stage", "offload_optimizer_device", "offload_param_device",
    )},
    "deepspeed_config_file": "deepspeed_config.deepspeed_config_file",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "dynamo_backend": "dynamo_config.dynamo_backend",
}  # fmt: skip
"""Flags of the launcher that lie in a section of the file."""


def _own(tool: str, verb: str, marked: Marked, *, alone: bool) -> Reading:
    """What the flags of a tool's own command say."""
    if tool == "trl":
        return hf_trainer.read_as(marked, "trl", verb)
    if tool == "ms-swift" and alone:
        return ms_swift.read(marked)
    if tool == "llama-factory" and alone:
        return llama_factory.read(marked)
    if not marked.entries:
        return Reading(marked, tool)
    readers = {
        **{"axolotl": axolotl.read, "torchtune": torchtune.read},
        **{"ms-swift": ms_swift.read, "llama-factory": llama_factory.read},
    }
    return readers[tool](marked)


def _yield_to(own: Reading, readings: list[Reading]) -> None:
    """Flags win over the file of the same command: what they say is dropped from it."""
    for one in readings:
        if one.tool == own.tool or one.tool not in ("accelerate", "deepspeed"):
            for name, taken in own.taken.items():
                if not taken.hint:
                    one.taken.pop(name, None)


def _devices(reading: Reading, count: int, key: str) -> None:
    """The count of devices, with the flag it comes from, or the variable of the environment."""
    if key not in reading.marked:
        entries = {**reading.marked.entries, key: Entry(count, 1, 0, 0)}
        reading.marked = replace(reading.marked, entries=entries)
    reading.take("devices", count, key)
