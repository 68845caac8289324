"""The models chipwise knows by name, and the ways to name one.

One TOML file per model under ``data/models`` holds the fields of its public configuration under
their public names, so that catalogue models and a user's ``config.json`` go through the same
reader; every value has a source. A person's own catalogue folder adds or replaces models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from chipwise.catalogue.huggingface import model_from_config, read_model
from chipwise.catalogue.load import (
    DATA,
    entry_ids,
    entry_path,
    expanded,
    file_error,
    forgettable,
    read_toml,
)
from chipwise.catalogue.rows import model_from_row
from chipwise.errors import UnknownNameError, UsageError
from chipwise.i18n import _
from chipwise.spec.model import ModelSpec

__all__ = [
    "Provenance",
    "load_model",
    "model_facts",
    "model_from_row",
    "model_ids",
    "model_provenance",
]

LISTING = "chipwise catalogue models"
_KIND = "models"
_NAMES = DATA / "model_names.toml"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_LONGEST_NAME = 128
_FACTS = ("published_params", "exact_params", "published_active_params")
_KEYS = {"id", "family", "config", "row", "sources", *_FACTS}


class Provenance(NamedTuple):
    """Where one value of a model comes from."""

    source: str
    """Key into the source list."""
    retrieved: str
    """Day it was read, ISO 8601."""
    note: str = ""
    also: tuple[str, ...] = ()
    """Further sources that state the same."""


def model_ids() -> tuple[str, ...]:
    """Names of all catalogue models, in alphabetical order; reads no file."""
    return entry_ids(_KIND)


def load_model(name_or_path: str | Path) -> ModelSpec:
    """A model by catalogue name, file, folder or hub id.

    Args:
        name_or_path: a catalogue name in any letter case, with spaces or underscores for
            hyphens; a hub id the catalogue knows
            (``meta-llama/Llama-2-7b-hf``); a ``config.json`` or a folder with one; a ``.toml``
            in the catalogue's form; any other hub id, which is fetched when online.

    Raises:
        UnknownNameError: nothing has that name.
        UsageError: the model is known but of a kind chipwise does not describe yet, or the hub
            cannot be asked.
        DataFileError: a file that cannot be used.
    """
    text = str(name_or_path).strip()
    if isinstance(name_or_path, str) and (file := _catalogue_file(text)):
        return _load_file(file)
    path = expanded(Path(text))
    if text and _exists(path):
        return _load_file(path) if path.suffix == ".toml" else read_model(path)
    if reason := _unsupported().get(text.lower()):
        raise UsageError(
            "model-not-supported",
            _("model '{name}' is known but cannot be described yet: {reason}").format(
                name=text, reason=_reason(reason)
            ),
            name=text,
        )
    if _HUB_ID.fullmatch(text) and not text.endswith((".json", ".toml")):
        from chipwise.catalogue.hub import model_from_hub

        return model_from_hub(text, _begins_like(text))
    raise UnknownNameError("model", text, model_ids(), LISTING)


def _begins_like(hub_id: str) -> str:
    """The catalogue model with the longest name that the one on the hub begins with, if any."""
    name = hub_id.rpartition("/")[2].lower()
    return max((one for one in model_ids() if name.startswith(one)), key=len, default="")


def model_provenance(model_id: str) -> Mapping[str, Provenance]:
    """Source and date of every value of a catalogue model, by field (``config.hidden_size``).

    Raises:
        UnknownNameError: no catalogue model has that name.
    """
    file = _file_of(model_id)
    return dict(_provenance(read_toml(file), file))


def model_facts(model_id: str) -> Mapping[str, int]:
    """Published and exact counts kept beside a catalogue model, for checks.

    Returns:
        Those of ``published_params``, ``exact_params`` and ``published_active_params`` that are
        known.

    Raises:
        UnknownNameError: no catalogue model has that name.
    """
    document = read_toml(_file_of(model_id))
    return {name: int(document[name]) for name in _FACTS if name in document}


def _provenance(document: Mapping[str, Any], file: Path) -> Iterator[tuple[str, Provenance]]:
    for entry in document.get("sources", ()):
        if missing := {"source", "retrieved", "fields"} - set(entry):
            text = _("an entry of [[sources]] has no '{key}'")
            raise file_error(file, None, text.format(key=min(missing)))
        given = Provenance(
            str(entry["source"]),
            str(entry["retrieved"]),
            str(entry.get("note", "")),
            tuple(map(str, entry.get("also", ()))),
        )
        for name in entry["fields"]:
            yield str(name), given


def _file_of(model_id: str) -> Path:
    file = _catalogue_file(model_id)
    if file is None:
        raise UnknownNameError("model", model_id, model_ids(), LISTING)
    return file


def _catalogue_file(text: str) -> Path | None:
    if len(text) > _LONGEST_NAME:
        return None
    name = re.sub(r"[\s_]+", "-", text.lower()) if "/" not in text else text.lower()
    return entry_path(_KIND, name) or (
        entry_path(_KIND, known) if (known := _aliases().get(name)) else None
    )


@cache
def _aliases() -> Mapping[str, str]:
    """Hub ids and other spellings → catalogue name."""
    table = read_toml(_NAMES)["aliases"]
    return {alias: model for model, spellings in table.items() for alias in spellings}


@cache
def _unsupported() -> Mapping[str, str]:
    """Known names of models that cannot be described yet → kind of reason."""
    table = read_toml(_NAMES)["unsupported"]
    return {name: reason for reason, names in table.items() for name in names}


def _reason(kind: str) -> str:
    return {
        "encoder": _("encoders are not supported"),
        "encoder-decoder": _("encoder-decoders are not supported"),
        "vision": _("vision models are not supported"),
        "diffusion": _("diffusion models are not supported"),
        "unpublished": _("its layers are not published completely enough for an exact count"),
    }[kind]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


@cache
def _load_file(file: Path) -> ModelSpec:
    document = read_toml(file)
    if unknown := set(document) - _KEYS:
        raise file_error(file, None, _("unknown key '{key}'").format(key=min(unknown)))
    name = str(document.get("id", file.stem))
    try:
        spec = _described(document, name)
    except UsageError as error:
        raise file_error(file, None, error.message) from None
    if spec is None:
        raise file_error(file, None, _("it has neither a table [config] nor a table [row]"))
    family = str(document.get("family", spec.family))
    return spec.model_copy(update={"family": family, "id": name})


def _described(document: Mapping[str, Any], name: str) -> ModelSpec | None:
    config, row = document.get("config"), document.get("row")
    if isinstance(config, dict):
        return model_from_config(config, id=name)
    if isinstance(row, dict):
        return model_from_row({field: str(value) for field, value in row.items()})[0]
    return None


forgettable(_load_file.cache_clear)
forgettable(entry_ids.cache_clear)
