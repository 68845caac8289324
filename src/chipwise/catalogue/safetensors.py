"""Exact parameter counts from safetensors checkpoints: headers only, never the weights.

A safetensors file starts with the length of its header (8 bytes, little-endian) and the header
itself, a JSON object that names every tensor with its type and shape [safetensors-format].
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path

from chipwise.errors import DataFileError
from chipwise.i18n import _

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
LARGEST_HEADER = 100_000_000
LARGEST_INDEX = 100_000_000
MOST_SHARDS = 10_000
_SCALES = ("_scale_inv", "_scale", ".scales", ".absmax", ".quant_map", ".g_idx", ".qzeros")
_BUFFERS = (".inv_freq", ".masked_bias")
_MASKS = (".attn.bias", ".attention.bias", ".attn.attention.bias")
_FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
_DTYPE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def stated_params(folder: Path, dtype: str = "") -> int:
    """The count a checkpoint in the folder states by itself; 0 when there is none to read.

    All parts of the checkpoint count, a vision tower or prediction layers included. Shards named
    by an index are all read when all are present. An index alone gives ``total_parameters`` of
    its metadata, else ``total_size`` divided by the bytes of ``dtype``, if that leaves no rest.

    Args:
        folder: where the checkpoint lies.
        dtype: type of all tensors as the configuration states it (``bfloat16``); empty when
            unknown or when the checkpoint is quantised.

    Raises:
        DataFileError: a header or index that is broken, hostile or too large.
    """
    index = folder / INDEX
    if index.is_file():
        return _params_of_index(index, _DTYPE_BYTES.get(dtype.removeprefix("torch."), 0))
    single = folder / SINGLE
    return params_of_file(single) if single.is_file() else 0


def params_of_file(file: Path) -> int:
    """Parameters of one safetensors file.

    Buffers that old checkpoints carry (rotary frequencies, causal masks) are not counted. A file
    with quantisation scales or packed integers says nothing about the count and gives 0.
    """
    return _count(header(file), file)


def header(file: Path) -> Mapping[str, object]:
    """The header of a safetensors file.

    Raises:
        DataFileError: too short, a length beyond the file or the limit, or no JSON object.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 2 <= length <= min(LARGEST_HEADER, size - 8):
                raise _broken(file, _("its header length does not fit the file"))
            raw = stream.read(length)
    except OSError as error:
        raise _broken(file, error.strerror or str(error)) from None
    return _object(raw, file)


def _params_of_index(index: Path, width: int) -> int:
    if index.stat().st_size > LARGEST_INDEX:
        raise _broken(index, _("larger than {limit:,} bytes").format(limit=LARGEST_INDEX))
    content = _object(index.read_bytes(), index)
    shards = _shards(content, index)
    if shards and all(shard.is_file() for shard in shards):
        counts = [params_of_file(shard) for shard in shards]
        return sum(counts) if all(counts) else 0
    metadata = content.get("metadata")
    if not isinstance(metadata, dict):
        return 0
    if total := _natural(metadata.get("total_parameters")):
        return total
    size = _natural(metadata.get("total_size"))
    return size // width if width and size % width == 0 else 0


def _natural(value: object) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**60
    return value if good and isinstance(value, int) else 0


def _shards(content: Mapping[str, object], index: Path) -> list[Path]:
    """The shard files of an index; names that leave the folder are refused."""
    weights = content.get("weight_map")
    if not isinstance(weights, dict):
        return []
    names = set(map(str, weights.values()))
    if len(names) > MOST_SHARDS:
        raise _broken(index, _("more than {limit:,} shards").format(limit=MOST_SHARDS))
    for name in names:
        if Path(name).name != name:
            raise _broken(index, _("shard '{name}' lies outside its folder").format(name=name))
    return [index.parent / name for name in sorted(names)]


def _count(entries: Mapping[str, object], file: Path) -> int:
    total = 0
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        shape, dtype = _shape_and_type(entry, name, file)
        if name.endswith(_BUFFERS) or (name.endswith(_MASKS) and len(shape) > 1):
            continue
        if name.endswith(_SCALES) or dtype not in _FLOATS:
            return 0
        total += prod(shape)
    return total


def _shape_and_type(entry: object, name: str, file: Path) -> tuple[list[int], str]:
    shape = entry.get("shape") if isinstance(entry, dict) else None
    dtype = entry.get("dtype") if isinstance(entry, dict) else None
    good = isinstance(shape, list) and all(
        isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**48 for size in shape
    )
    if not good or not isinstance(dtype, str) or not isinstance(shape, list):
        raise _broken(file, _("tensor '{name}' has no sensible shape and type").format(name=name))
    return shape, dtype


def _object(raw: bytes, file: Path) -> Mapping[str, object]:
    try:
        value = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _broken(file, str(error)[:200]) from None
    if not isinstance(value, dict):
        raise _broken(file, _("not a JSON object"))
    return value


def _broken(file: Path, reason: str) -> DataFileError:
    return DataFileError(
        "broken-checkpoint",
        _("{file} cannot be read: {reason}").format(file=file, reason=reason),
        file=str(file),
    )
