"""Accelerators and systems from their files, as specs with their provenance.

One accelerator is one file; only the files that are asked for are read.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from chipwise.catalogue.load import (
    DATA,
    Table,
    entry_ids,
    entry_path,
    file_error,
    forgettable,
    line_of,
    read_toml,
)
from chipwise.catalogue.sources import Sourced, number, sourced
from chipwise.errors import UnknownNameError
from chipwise.i18n import _
from chipwise.spec.hardware import Accelerator, Node
from chipwise.units import parse

LISTING = "chipwise catalogue accelerators"

_PLAIN = (
    *("id", "name", "vendor", "kind", "architecture", "family", "scaleup_link", "software"),
    *("purchasable", "announced", "peer_to_peer", "matmul_tile", "cores_per_device"),
    *("memory_type", "visible_dies"),
)
_ABOUT = {
    *("default_system", "release", "process_nm", "onchip_kind", "matrix_unit"),
    *("host_link", "source", "retrieved", "confidence", "checked", "note"),
}
_TABLES = {"values", "peak", "peak_narrow_accumulate", "derivation"}
_VALUES = {
    "memory": ("memory_bytes", "B"),
    "visible_memory": ("visible_bytes", "B"),
    "bandwidth": ("peak_bandwidth", "B/s"),
    "onchip_memory": ("onchip_bytes", "B"),
    "scaleup_bandwidth": ("scaleup_bandwidth", "B/s"),
    "scaleup_domain": ("scaleup_domain", "1"),
    "host_bandwidth": ("host_bandwidth", "B/s"),
    "tdp": ("tdp_watts", "W"),
}
_FACTS = {"sold_memory": "B", "boost_clock": "Hz", "sparsity_factor": "1"}
_NEEDED = ("memory", "visible_memory", "bandwidth")
_SYSTEM_VALUES = {
    "devices": "1",
    "link_bandwidth": "B/s",
    "network_bandwidth": "B/s",
    "host_memory": "B",
    "host_memory_per_device": "B",
}
_SYSTEM_PLAIN = {
    *("id", "name", "accelerators", "topology", "network", "purchasable_counts", "increment"),
    *("shapes", "pod", "max_slice", "cores_in_names", "source", "retrieved", "note"),
}


@dataclass(frozen=True)
class System:
    """A node template: what joins the devices, what leads out, and which counts exist."""

    id: str
    name: str
    accelerators: tuple[str, ...]
    topology: str
    devices: int
    network_bandwidth: float
    network: str = ""
    link_bandwidth: float = 0.0
    host_memory: float = 0.0
    host_memory_per_device: float = 0.0
    purchasable_counts: tuple[int, ...] = ()
    increment: int = 0
    """Smallest share of a domain that is handed out; 0 when a job gets whole nodes."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """Slice shapes below one full cube or of a fixed list (torus machines)."""
    pod: tuple[int, ...] = ()
    max_slice: int = 0
    cores_in_names: bool = False
    """Cloud names of slices count cores, not chips."""
    note: str = ""


def accelerator_ids() -> tuple[str, ...]:
    """All accelerator ids, sorted; no file is opened."""
    return entry_ids("accelerators")


def system_ids() -> tuple[str, ...]:
    """All system ids, sorted; no file is opened."""
    return entry_ids("systems")


@cache
def accelerator_file(accelerator: str) -> tuple[Path, Table]:
    """Path and raw tables of an accelerator.

    Raises:
        UnknownNameError: no such accelerator.
        DataFileError: its file cannot be read.
    """
    path = entry_path("accelerators", accelerator)
    if path is None:
        raise UnknownNameError("accelerator", accelerator, accelerator_ids(), LISTING)
    table = read_toml(path)
    for key in table:
        if key not in _PLAIN and key not in _ABOUT and key not in _TABLES:
            raise file_error(path, line_of(path, key), _("unknown field '{key}'").format(key=key))
    return path, table


@cache
def accelerator_provenance(accelerator: str) -> Mapping[str, Sourced]:
    """Every value of an accelerator with source, date and note.

    Keys are field names; tables are joined by a dot: ``bandwidth``, ``peak.bf16``,
    ``derivation.clock``, ``derivation.operations_per_clock.bf16``.
    """
    path, table = accelerator_file(accelerator)
    found: dict[str, Sourced] = {}
    for key, raw in table.get("values", {}).items():
        found[key] = sourced(path, f"values.{key}", raw)
    for group in ("peak", "peak_narrow_accumulate", "derivation"):
        _collect(path, group, table.get(group, {}), found)
    return found


def _collect(path: Path, group: str, table: Table, found: dict[str, Sourced]) -> None:
    for key, raw in table.items():
        if key == "differs":
            continue
        if isinstance(raw, dict) and "value" not in raw:
            _collect(path, f"{group}.{key}", raw, found)
        else:
            found[f"{group}.{key}"] = sourced(path, f"{group}.{key}", raw)


@cache
def load_accelerator(accelerator: str) -> Accelerator:
    """The spec of one accelerator, in SI units.

    Raises:
        UnknownNameError: no such accelerator; offers the nearest ids.
        DataFileError: its file is broken; names file, line and reason.
    """
    path, table = accelerator_file(accelerator)
    values = accelerator_provenance(accelerator)
    fields: dict[str, object] = {key: table[key] for key in _PLAIN if key in table}
    for key in _NEEDED:
        if key not in values:
            raise file_error(path, None, _("'{key}' is missing under [values]").format(key=key))
    for key, value in values.items():
        if key in _VALUES:
            name, unit = _VALUES[key]
            fields[name] = number(path, f"values.{key}", value, unit)
        elif "." not in key and key not in _FACTS:
            line = line_of(path, f"values.{key}")
            raise file_error(path, line, _("unknown field '{key}'").format(key=key))
    peaks = _peaks(path, values)
    fields["peak_flops"] = peaks
    fields["matmul_fraction"] = _matmul_fraction(accelerator, peaks)
    try:
        return Accelerator.model_validate(fields)
    except ValidationError as error:
        raise _invalid(path, error) from None


def _peaks(path: Path, values: Mapping[str, Sourced]) -> dict[str, float]:
    peaks = {
        key.removeprefix("peak."): number(path, key, value, "FLOP/s")
        for key, value in values.items()
        if key.startswith("peak.")
    }
    for key, value in values.items():
        if key.startswith("peak_narrow_accumulate."):
            dtype = key.removeprefix("peak_narrow_accumulate.")
            width = re.sub(r"\D", "", dtype)
            peaks[f"{dtype}_acc{width}"] = number(path, key, value, "FLOP/s")
    return peaks


def _invalid(path: Path, error: ValidationError) -> Exception:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"]) or _("the file")
    reason = first["msg"].removeprefix("Value error, ")
    names = {name: f"values.{key}" for key, (name, _unit) in _VALUES.items()}
    line = line_of(path, names.get(field, field))
    return file_error(path, line, _("'{field}': {reason}").format(field=field, reason=reason))


@cache
def microbenchmarks() -> tuple[Mapping[str, str], ...]:
    """Published micro-benchmark results, one mapping per row of ``microbench.csv``."""
    with (DATA / "microbench.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def _best_matmul() -> Mapping[tuple[str, str], float]:
    best: dict[tuple[str, str], float] = {}
    for row in microbenchmarks():
        if row["quantity"] == "matmul" and row["dtype"] in ("bf16", "fp16"):
            key = (row["accelerator"], row["dtype"])
            rate = parse(f"{row['value']} {row['unit']}", "FLOP/s")
            best[key] = max(best.get(key, 0.0), rate)
    return best


def _matmul_fraction(accelerator: str, peaks: Mapping[str, float]) -> float:
    shares = [
        rate / peaks[dtype]
        for (measured, dtype), rate in _best_matmul().items()
        if measured == accelerator and dtype in peaks
    ]
    return max(shares, default=0.0)


@cache
def load_system(system: str) -> System:
    """A node template.

    Raises:
        UnknownNameError: no such system; offers the nearest ids.
        DataFileError: its file is broken; names file, line and reason.
    """
    path = entry_path("systems", system)
    if path is None:
        raise UnknownNameError("system", system, system_ids(), "chipwise catalogue systems")
    table = read_toml(path)
    for key in table:
        if key not in _SYSTEM_PLAIN and key != "values":
            raise file_error(path, line_of(path, key), _("unknown field '{key}'").format(key=key))
    values = {
        key: number(path, f"values.{key}", value, _SYSTEM_VALUES[key])
        for key, value in system_provenance(system).items()
    }
    try:
        return System(
            id=str(table["id"]),
            name=str(table["name"]),
            accelerators=tuple(table["accelerators"]),
            topology=str(table["topology"]),
            devices=int(values.pop("devices")),
            network_bandwidth=values.pop("network_bandwidth"),
            network=str(table.get("network", "")),
            purchasable_counts=tuple(table.get("purchasable_counts", ())),
            increment=int(table.get("increment", 0)),
            shapes=tuple(shape_of(text) for text in table.get("shapes", ())),
            pod=shape_of(table["pod"]) if "pod" in table else (),
            max_slice=int(table.get("max_slice", 0)),
            cores_in_names=bool(table.get("cores_in_names", False)),
            note=str(table.get("note", "")),
            **values,
        )
    except KeyError as error:
        raise file_error(path, None, _("{key} is missing").format(key=error)) from None
    except (TypeError, ValueError) as error:
        raise file_error(path, None, str(error)) from None


@cache
def system_provenance(system: str) -> Mapping[str, Sourced]:
    """Every value of a system with source, date and note, by field name."""
    path = entry_path("systems", system)
    if path is None:
        raise UnknownNameError("system", system, system_ids(), "chipwise catalogue systems")
    found = {}
    for key, raw in read_toml(path).get("values", {}).items():
        if key not in _SYSTEM_VALUES:
            line = line_of(path, f"values.{key}")
            raise file_error(path, line, _("unknown field '{key}'").format(key=key))
        found[key] = sourced(path, f"values.{key}", raw)
    return found


def shape_of(text: str) -> tuple[int, ...]:
    """``2x2x4`` as (2, 2, 4).

    Raises:
        ValueError: not whole numbers joined by x.
    """
    return tuple(int(part) for part in str(text).lower().split("x"))


def default_system(accelerator: str) -> System:
    """The usual node of an accelerator."""
    path, table = accelerator_file(accelerator)
    stated = table.get("default_system", "")
    if not stated:
        return _single_device(accelerator)
    if entry_path("systems", str(stated)) is None:
        line = line_of(path, "default_system")
        raise file_error(path, line, _("no system '{name}'").format(name=stated))
    return load_system(str(stated))


def _single_device(accelerator: str) -> System:
    """A host with one device, for entries of a person's own that name no system."""
    return System(
        id="single",
        name=_("one device in a host"),
        accelerators=(accelerator,),
        topology="single",
        devices=1,
        network_bandwidth=parse("25 Gb/s", "B/s"),
        network=_("Ethernet, 25 Gb/s (assumed)"),
        host_memory_per_device=parse("64 GB", "B"),
        note=_("assumed: the accelerator's file names no default_system"),
    )


def load_node(accelerator: str, system: str | None = None, devices: int | None = None) -> Node:
    """One node with ``devices`` devices of an accelerator.

    Args:
        accelerator: accelerator id.
        system: system id; the accelerator's default system when None.
        devices: devices in the node; as many as the system holds when None.

    Returns:
        A node whose host memory is that of the system, or its share where the system is a domain
        of many hosts (torus slices, racks) or states the memory per device.
    """
    template = default_system(accelerator) if system is None else load_system(system)
    device = load_accelerator(accelerator)
    count = template.devices if devices is None else devices
    host_memory = template.host_memory_per_device * count or template.host_memory
    if template.increment and template.host_memory:
        host_memory *= count / template.devices
    return Node.model_validate(
        {
            "id": template.id,
            "accelerator": accelerator,
            "devices": count,
            "intra_bandwidth": _link(template, device),
            "network_bandwidth": template.network_bandwidth,
            "network": template.network,
            "topology": template.topology,
            "host_memory_bytes": host_memory,
            "host_bandwidth": device.host_bandwidth,
            "purchasable_counts": template.purchasable_counts,
        }
    )


def _link(system: System, device: Accelerator) -> float:
    if system.link_bandwidth:
        return system.link_bandwidth
    if system.topology in ("host", "single"):
        return device.host_bandwidth
    return device.scaleup_bandwidth or device.host_bandwidth


def systems_of(accelerator: str) -> tuple[System, ...]:
    """All systems an accelerator is found in, the default first."""
    usual = default_system(accelerator)
    others = (load_system(name) for name in system_ids())
    return (
        usual,
        *(other for other in others if accelerator in other.accelerators and other != usual),
    )


for _cached in (accelerator_file, accelerator_provenance, load_accelerator):
    forgettable(_cached.cache_clear)
for _cached_system in (load_system, system_provenance):
    forgettable(_cached_system.cache_clear)
