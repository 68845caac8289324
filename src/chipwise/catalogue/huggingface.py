"""A Hugging Face ``config.json`` as a ``ModelSpec``: exact, or refused with the reason.

The file is read as JSON with limits on size and depth; nothing in it is executed. Wrappers of
multimodal models are entered at their ``text_config``: only the language model is described.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import ValidationError

from chipwise.catalogue.hf import classic, compressed, dense, hybrid, latent, sparse
from chipwise.catalogue.hf.fields import Fields
from chipwise.catalogue.safetensors import stated_params
from chipwise.errors import DataFileError, UsageError, nearest_names
from chipwise.i18n import _
from chipwise.spec.model import ModelSpec

LARGEST_FILE = 10_000_000
DEEPEST_NESTING = 32
CONFIG = "config.json"

READERS: Mapping[str, Callable[[Fields, str], ModelSpec]] = {
    **dense.READERS,
    **classic.READERS,
    **sparse.READERS,
    **latent.READERS,
    **hybrid.READERS,
    **compressed.READERS,
}
"""What can be read, by ``model_type``."""

_TEXT_PARTS = ("text_config", "llm_config", "language_config")


def model_from_config(config: Mapping[str, object], *, id: str) -> ModelSpec:
    """The decoder a configuration describes.

    Args:
        config: the parsed ``config.json``.
        id: name to give to the model.

    Returns:
        The language model. Vision and audio towers and multi-token-prediction layers are left
        out; ``left_out`` names them.

    Raises:
        UsageError: the ``model_type`` is unknown.
        DataFileError: a field is missing, has an impossible value, or is not known.
    """
    inner = text_part(config)
    kind = inner.get("model_type", config.get("model_type"))
    if not isinstance(kind, str) or kind not in READERS:
        raise _unknown_type(kind)
    fields = Fields(inner, kind)
    try:
        return READERS[kind](fields, id)
    except ValidationError as error:
        first = error.errors()[0]
        reason = first["msg"].removeprefix("Value error, ")
        raise DataFileError(
            "impossible-config",
            _("the configuration describes no possible model: {reason}").format(reason=reason),
        ) from None


def text_part(config: Mapping[str, object]) -> Mapping[str, object]:
    """The language model's own configuration inside a multimodal wrapper, else the whole."""
    for name in _TEXT_PARTS:
        inner = config.get(name)
        if isinstance(inner, Mapping) and inner:
            outer_tie = config.get("tie_word_embeddings")
            tie = {} if outer_tie is None else {"tie_word_embeddings": outer_tie}
            return {**tie, **inner}
    return config


def left_out(config: Mapping[str, object]) -> tuple[str, ...]:
    """What of a configuration the model does not describe, in words."""
    said = []
    if any(isinstance(config.get(name), Mapping) for name in ("vision_config", "vision_tower")):
        said.append(_("vision tower"))
    if isinstance(config.get("audio_config"), Mapping):
        said.append(_("audio tower"))
    inner = text_part(config)
    layers = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
    if any(inner.get(name) for name in layers):
        said.append(_("multi-token-prediction layers"))
    return tuple(said)


def read_model(path: Path, *, id: str | None = None) -> ModelSpec:
    """The model of a ``config.json``, or of a folder that holds one.

    When a safetensors file or index lies beside it, its exact count is kept as
    ``stated_params``.

    Raises:
        DataFileError: the file cannot be read, is too large, is no JSON object, or describes
            no model chipwise knows; the message starts with the file's name.
    """
    file = path / CONFIG if path.is_dir() else path
    config = read_json(file, LARGEST_FILE)
    name = id or (file.parent.name if file.name == CONFIG else file.stem) or "model"
    try:
        model = model_from_config(config, id=name)
    except DataFileError as error:
        details = {key: value for key, value in error.details.items() if key != "file"}
        raise DataFileError(
            error.code, f"{file}: {error.message}", file=str(file), **details
        ) from None
    stated = stated_params(file.parent, _stored_dtype(config))
    return model.model_copy(update={"stated_params": stated}) if stated else model


def _stored_dtype(config: Mapping[str, object]) -> str:
    """The type of all tensors of the checkpoint; empty when quantised or not stated."""
    inner = text_part(config)
    if any(part.get("quantization_config") for part in (config, inner)):
        return ""
    names = ("dtype", "torch_dtype")
    stated = [part.get(name) for part in (config, inner) for name in names if part.get(name)]
    return str(stated[0]) if stated else ""


def read_json(file: Path, limit: int) -> Mapping[str, object]:
    """The JSON object in a file, with limits on size, depth and numbers.

    Raises:
        DataFileError: no regular file, larger than ``limit`` bytes, nested too deeply, not
            JSON, a key that stands twice, or not an object.
    """
    try:
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise _unreadable(file, _("no regular file"))
        with file.open("rb") as stream:
            raw = stream.read(limit + 1)
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from None
    if len(raw) > limit:
        raise _unreadable(file, _("larger than {limit:,} bytes").format(limit=limit))
    return parse_json(raw, file)


def parse_json(raw: bytes, file: Path) -> Mapping[str, object]:
    """The JSON object in some bytes; ``file`` names them in errors."""
    try:
        value = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_unrepeated)
    except RecursionError:
        raise _unreadable(file, _("nested too deeply")) from None
    except ValueError as error:
        raise _unreadable(file, str(error)[:200]) from None
    if not isinstance(value, dict):
        raise _unreadable(file, _("not a JSON object"))
    if _depth(value) > DEEPEST_NESTING:
        raise _unreadable(file, _("nested too deeply"))
    return value


def _unrepeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object of some pairs; a key that stands twice could mean either value."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(_("'{name}' stands there twice").format(name=name[:60]))
        found[name] = value
    return found


def _depth(value: object) -> int:
    """Levels of nesting, without recursion."""
    level, depth = [value], 0
    while level and depth <= DEEPEST_NESTING:
        depth += 1
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth


def _unreadable(file: Path, reason: str) -> DataFileError:
    return DataFileError(
        "unreadable-file",
        _("{file} cannot be read: {reason}").format(file=file, reason=reason),
        file=str(file),
    )


def _unknown_type(kind: object) -> UsageError:
    if not isinstance(kind, str):
        return DataFileError(
            "missing-config-field", _("the configuration has no 'model_type'"), name="model_type"
        )
    nearest = nearest_names(kind, READERS)
    return UsageError(
        "unknown-model-type",
        _("model_type '{kind}' is not supported{hint}. Supported: {known}.").format(
            kind=kind[:60],
            hint=_(", nearest: {names}").format(names=", ".join(nearest)) if nearest else "",
            known=", ".join(sorted(READERS)),
        ),
        name=kind,
        nearest=nearest,
    )
