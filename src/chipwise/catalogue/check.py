"""The catalogue against itself: sources resolve, units parse, links hold, related values agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from chipwise.catalogue.check_money import check_money
from chipwise.catalogue.derive import (
    TOLERANCE,
    derived_bandwidth,
    derived_peak,
    differences,
)
from chipwise.catalogue.finding import Finding, is_date
from chipwise.catalogue.hardware import (
    accelerator_file,
    accelerator_ids,
    accelerator_provenance,
    default_system,
    load_accelerator,
    load_node,
    load_system,
    microbenchmarks,
    system_ids,
    system_provenance,
)
from chipwise.catalogue.load import entry_path, folders, read_toml
from chipwise.catalogue.sources import Sourced, number, sources
from chipwise.errors import ChipwiseError
from chipwise.explanation import Explanation
from chipwise.i18n import _
from chipwise.spec.hardware import Accelerator
from chipwise.units import show

_DOUBLED_FP8 = ("nvidia", "amd")
"""Vendors whose documents say that fp8 runs at twice the 16-bit rate."""
_SOLD_SHARE = (0.93, 1.09)
"""Reported memory over the size sold in decimal GB: from binary reserve to binary counting."""


def check_catalogue() -> list[Finding]:
    """Everything that does not hold in accelerators, systems, sources, names and measurements.

    Returns:
        Findings, errors first; empty when all holds.
    """
    if broken := list(_sources()):
        return broken
    found = [
        *(finding for name in accelerator_ids() for finding in check_accelerator(name)),
        *(finding for name in system_ids() for finding in check_system(name)),
        *_aliases(),
        *_microbenchmarks(),
        *check_money(sources(), accelerator_ids()),
    ]
    return sorted(found, key=lambda finding: (finding.severity, finding.file, finding.field))


def _error(path: Path | str, field: str, message: str) -> Finding:
    return Finding(str(path), field, "error", message)


def _sources() -> Iterator[Finding]:
    try:
        for key, source in sources().items():
            if not is_date(source.retrieved):
                text = _("'{date}' is no date (YYYY-MM-DD)").format(date=source.retrieved)
                yield _error("sources.toml", f"{key}.retrieved", text)
    except ChipwiseError as error:
        yield _error("sources.toml", "", error.message)


def check_accelerator(name: str) -> Iterator[Finding]:
    """What does not hold in one accelerator's file."""
    path = entry_path("accelerators", name) or Path(name)
    try:
        _path, table = accelerator_file(name)
        values = accelerator_provenance(name)
        device = load_accelerator(name)
        yield from _identity(path, name, device.id)
        yield from _provenance(path, values)
        yield from _dates(path, table)
        yield from _numbers(path, values)
        yield from _derivations(path, name, device)
        yield from _memory(path, device, values)
        yield from _related_rates(path, device, differences(name))
        yield from _default_node(path, name)
    except ChipwiseError as error:
        yield _error(path, "", error.message)


def _identity(path: Path, name: str, stated: str) -> Iterator[Finding]:
    if stated != name:
        text = _("id '{id}' differs from the file's name '{name}'").format(id=stated, name=name)
        yield _error(path, "id", text)


def _dates(path: Path, table: Mapping[str, object]) -> Iterator[Finding]:
    """The file's own source and date, which stand for its plain fields."""
    plain = Sourced("", str(table.get("source", "")), str(table.get("retrieved", "")))
    yield from _provenance(path, {"source": plain})


def _provenance(path: Path, values: Mapping[str, Sourced]) -> Iterator[Finding]:
    known = sources()
    for field, value in values.items():
        for key in (value.source, *value.also):
            if key not in known:
                text = _("source '{key}' is not in sources.toml").format(key=key)
                yield _error(path, field, text)
        if not is_date(value.retrieved):
            text = _("'{date}' is no date (YYYY-MM-DD)").format(date=value.retrieved)
            yield _error(path, field, text)
        if value.basis not in ("datasheet", "assumed"):
            text = _("basis '{basis}' is neither datasheet nor assumed").format(basis=value.basis)
            yield _error(path, field, text)
        if value.basis == "assumed" and not value.note and value.source == "assumption":
            yield _error(path, field, _("an assumption needs a note that says what it rests on"))


_OTHER_UNITS = {
    "sold_memory": "B",
    "boost_clock": "Hz",
    "sparsity_factor": "1",
    "derivation.clock": "Hz",
    "derivation.memory_rate": "B/s",
}


def _numbers(path: Path, values: Mapping[str, Sourced]) -> Iterator[Finding]:
    """Units of the values that loading an accelerator does not read."""
    for field, value in values.items():
        unit = _OTHER_UNITS.get(field)
        if unit is None and field.startswith("derivation."):
            unit = "Hz" if field.endswith("_clock") else "1"
        if unit is None:
            continue
        try:
            number(path, field, value, unit)
        except ChipwiseError as error:
            yield _error(path, field, error.message)


def _derivations(path: Path, name: str, device: Accelerator) -> Iterator[Finding]:
    explained = dict(differences(name))
    stated = {**device.peak_flops, "bandwidth": device.peak_bandwidth}
    for key, value in stated.items():
        derived = derived_bandwidth(name) if key == "bandwidth" else derived_peak(name, key)
        if derived is not None:
            yield from _agreement(path, key, value, derived, explained.pop(key, None))
    for key in explained:
        text = _("a difference is explained, but nothing is derived")
        yield _error(path, f"derivation.differs.{key}", text)


def _agreement(
    path: Path, key: str, stated: float, derived: Explanation, explained: str | None
) -> Iterator[Finding]:
    differs = abs(derived.value / stated - 1) > TOLERANCE
    if differs and not explained:
        text = _("stated {stated}, derived {derived} ({formula})").format(
            stated=show(stated, derived.unit, 4),
            derived=show(derived.value, derived.unit, 4),
            formula=derived.formula,
        )
        yield _error(path, key, text)
    if explained and not differs:
        text = _("a difference is explained, but stated and derived agree")
        yield Finding(str(path), f"derivation.differs.{key}", "warning", text)


def _memory(path: Path, device: Accelerator, values: Mapping[str, Sourced]) -> Iterator[Finding]:
    if device.visible_bytes > device.memory_bytes:
        text = _("more memory is visible than there is")
        yield _error(path, "visible_memory", text)
    if "sold_memory" in values:
        share = device.memory_bytes / number(path, "sold_memory", values["sold_memory"], "B")
        if not _SOLD_SHARE[0] <= share <= _SOLD_SHARE[1]:
            text = _("memory is {share} of the size sold").format(share=f"{share:.2f}")
            yield _error(path, "memory", text)


def _related_rates(
    path: Path, device: Accelerator, explained: Mapping[str, str]
) -> Iterator[Finding]:
    """Twice the 16-bit rate in fp8, and equal 16-bit rates, where the vendor says so."""
    if device.vendor not in _DOUBLED_FP8 or device.announced:
        return
    rates = device.peak_flops
    if "bf16" in rates and "fp8" in rates and abs(rates["fp8"] / rates["bf16"] / 2 - 1) > TOLERANCE:
        yield _error(path, "peak.fp8", _("fp8 is not twice the bf16 rate"))
    if "bf16" in rates and "fp16" in rates and abs(rates["fp16"] / rates["bf16"] - 1) > TOLERANCE:
        yield _error(path, "peak.fp16", _("fp16 and bf16 rates differ"))


def _default_node(path: Path, name: str) -> Iterator[Finding]:
    system = default_system(name)
    if name not in system.accelerators:
        text = _("default system '{system}' does not list it").format(system=system.id)
        yield _error(path, "default_system", text)
    load_node(name)


def check_system(name: str) -> Iterator[Finding]:
    """What does not hold in one system's file."""
    path = entry_path("systems", name) or Path(name)
    try:
        system = load_system(name)
        yield from _identity(path, name, system.id)
        yield from _provenance(path, system_provenance(name))
        yield from _dates(path, read_toml(path))
        yield from _joins(path, name, system.accelerators)
        for count in system.purchasable_counts:
            if count > system.devices:
                text = _("{count} is more than the devices of the system").format(count=count)
                yield _error(path, "purchasable_counts", text)
    except ChipwiseError as error:
        yield _error(path, "", error.message)


def _joins(path: Path, name: str, accelerators: Iterable[str]) -> Iterator[Finding]:
    """Every accelerator of a system exists and can be joined by a link of some speed."""
    for accelerator in accelerators:
        if accelerator not in accelerator_ids():
            text = _("unknown accelerator '{name}'").format(name=accelerator)
            yield _error(path, "accelerators", text)
            continue
        node = load_node(accelerator, name)
        if node.devices > 1 and not node.intra_bandwidth > 0:
            text = _("no link speed joins the devices of '{name}'").format(name=accelerator)
            yield _error(path, "accelerators", text)


def _aliases() -> Iterator[Finding]:
    for folder in folders():
        path = folder / "aliases.toml"
        if not path.is_file():
            continue
        try:
            aliases = read_toml(path)
        except ChipwiseError as error:
            yield _error(path, "", error.message)
            continue
        for alias, names in aliases.items():
            for name in names if isinstance(names, list) else [names]:
                if name not in accelerator_ids():
                    text = _("unknown accelerator '{name}'").format(name=name)
                    yield _error(path, alias, text)


def _microbenchmarks() -> Iterator[Finding]:
    for number_of_row, row in enumerate(microbenchmarks(), 2):
        place = _("line {number}").format(number=number_of_row)
        if row["accelerator"] not in accelerator_ids():
            text = _("unknown accelerator '{name}'").format(name=row["accelerator"])
            yield _error("microbench.csv", place, text)
        if row["source"] not in sources():
            text = _("source '{key}' is not in sources.toml").format(key=row["source"])
            yield _error("microbench.csv", place, text)
