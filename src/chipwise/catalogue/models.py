"""The models chipwise knows by name, and the ways to name one.

One TOML file per model under ``data/models`` holds the fields of its public configuration under
their public names, so that catalogue models and a user's ``config.json`` go through the same
reader; every value has a source.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from chipwise.catalogue.huggingface import model_from_config, read_model
from chipwise.catalogue.rows import model_from_row as model_from_row
from chipwise.errors import DataFileError, UnknownNameError, UsageError
from chipwise.i18n import _
from chipwise.spec.model import ModelSpec

LISTING = "chipwise catalogue models"
_FOLDER = Path(__file__).parent / "data" / "models"
_NAMES = "_names.toml"
_LARGEST_FILE = 1_000_000
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


class Provenance(NamedTuple):
    """Where one value of a model comes from."""

    source: str
    retrieved: str
    note: str = ""


def model_ids() -> tuple[str, ...]:
    """Names of all catalogue models, in alphabetical order; reads no file."""
    return tuple(sorted(_files()))


def load_model(name_or_path: str | Path) -> ModelSpec:
    """A model by catalogue name, file, folder or hub id.

    Args:
        name_or_path: a catalogue name in any letter case; a hub id the catalogue knows
            (``meta-llama/Llama-2-7b-hf``); a ``config.json`` or a folder with one; a ``.toml``
            in the catalogue's form; any other hub id, which is fetched when online.

    Raises:
        UnknownNameError: nothing has that name.
        UsageError: the model is known but of a kind chipwise does not describe yet, or the hub
            cannot be asked.
        DataFileError: a file that cannot be used.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, str) and (known := _catalogue_name(text)):
        return _load_catalogue_model(_files()[known])
    path = Path(text).expanduser()
    if _exists(path):
        return _load_file(path)
    if text.lower() in _names().unsupported:
        raise UsageError(
            "model-not-supported",
            _("'{name}' is known but not supported yet: {reason}").format(
                name=text, reason=_names().unsupported[text.lower()]
            ),
            name=text,
        )
    if _HUB_ID.fullmatch(text) and not text.endswith((".json", ".toml")):
        from chipwise.catalogue.hub import model_from_hub

        return model_from_hub(text)
    raise UnknownNameError("model", text, model_ids(), LISTING)


def model_provenance(model_id: str) -> Mapping[str, Provenance]:
    """Source and date of every value of a catalogue model, by field.

    Raises:
        UnknownNameError: no catalogue model has that name.
    """
    known = _catalogue_name(model_id)
    if known is None:
        raise UnknownNameError("model", model_id, model_ids(), LISTING)
    document = _read_toml(_files()[known])
    return dict(_provenance(document))


def model_facts(model_id: str) -> Mapping[str, int]:
    """Published and exact counts kept beside a catalogue model, for checks.

    Returns:
        Those of ``published_params``, ``exact_params`` and ``published_active_params`` that are
        known.
    """
    known = _catalogue_name(model_id)
    if known is None:
        raise UnknownNameError("model", model_id, model_ids(), LISTING)
    document = _read_toml(_files()[known])
    facts: dict[str, int] = {}
    for name in ("published_params", "exact_params", "published_active_params"):
        if isinstance(value := document.get(name), int):
            facts[name] = value
    return facts


def _provenance(document: Mapping[str, object]) -> Iterator[tuple[str, Provenance]]:
    sources = document.get("sources")
    for entry in sources if isinstance(sources, list) else []:
        given = Provenance(
            str(entry["source"]), str(entry["retrieved"]), str(entry.get("note", ""))
        )
        for name in entry["fields"]:
            yield str(name), given


class _Names(NamedTuple):
    aliases: Mapping[str, str]
    unsupported: Mapping[str, str]


@lru_cache(maxsize=1)
def _names() -> _Names:
    document = _read_toml(_FOLDER / _NAMES)
    aliases, unsupported = document.get("aliases"), document.get("unsupported")
    assert isinstance(aliases, dict) and isinstance(unsupported, dict)
    return _Names(
        {alias.lower(): model for model, spellings in aliases.items() for alias in spellings},
        {name: reason for reason, names in unsupported.items() for name in names},
    )


def _catalogue_name(text: str) -> str | None:
    name = text.strip().lower()
    if name in _files():
        return name
    return _names().aliases.get(name)


def _files() -> Mapping[str, Path]:
    return {file.stem: file for file in _FOLDER.glob("[!_]*.toml")}


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _load_file(path: Path) -> ModelSpec:
    if path.suffix == ".toml":
        return _load_catalogue_model(path)
    return read_model(path)


@lru_cache(maxsize=256)
def _load_catalogue_model(file: Path) -> ModelSpec:
    document = _read_toml(file)
    config = document.get("config")
    if not isinstance(config, dict):
        raise _broken(file, _("it has no table [config]"))
    try:
        spec = model_from_config(config, id=str(document.get("id", file.stem)))
    except UsageError as error:
        raise _broken(file, error.message) from None
    family = document.get("family")
    return spec.model_copy(update={"family": family}) if isinstance(family, str) else spec


def _read_toml(file: Path) -> Mapping[str, object]:
    try:
        with file.open("rb") as stream:
            raw = stream.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise _broken(file, error.strerror or str(error)) from None
    if len(raw) > _LARGEST_FILE:
        raise _broken(file, _("larger than {limit:,} bytes").format(limit=_LARGEST_FILE))
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _broken(file, str(error)[:200]) from None


def _broken(file: Path, reason: str) -> DataFileError:
    return DataFileError(
        "broken-model-file",
        _("{file} cannot be used: {reason}").format(file=file, reason=reason),
        file=str(file),
    )
