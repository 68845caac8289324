"""The catalogue as documents: listings, one entry with its sources, and the check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from chipwise.app.documents_facts import CatalogueDocument, Column, Fact, Finding
from chipwise.app.requests import CatalogueRequest
from chipwise.catalogue import hardware, models, prices
from chipwise.catalogue.check import check_catalogue
from chipwise.catalogue.energy import energy_rows
from chipwise.catalogue.load import use_catalogue
from chipwise.catalogue.names import resolve_accelerator
from chipwise.errors import ChipwiseError, UnitError, UnknownNameError
from chipwise.i18n import _
from chipwise.spec.tensors import params_active, params_total
from chipwise.units import parse

LISTING = "chipwise catalogue accelerators|systems|models"
UNITS = ("B/s", "FLOP/s", "Hz", "W", "B", "1")
"""Units a catalogue value may carry, tried in this order."""


def catalogue(request: CatalogueRequest) -> CatalogueDocument:
    """List, show or check the catalogue.

    Raises:
        UnknownNameError: no entry has the id that is to be shown.
        DataFileError: a file of the catalogue is broken; names file, line and reason.
    """
    use_catalogue(Path(request.catalogue) if request.catalogue else None)
    return _ANSWERS[request.kind](request)


def _document(request: CatalogueRequest, **content: Any) -> CatalogueDocument:
    return CatalogueDocument(
        command=f"catalogue {request.kind}",
        inputs=request.model_dump(exclude_none=True),
        kind=request.kind,
        **content,
    )


def _accelerators(request: CatalogueRequest) -> CatalogueDocument:
    columns = (
        Column(name="id", title=_("id")),
        Column(name="name", title=_("name")),
        Column(name="vendor", title=_("vendor")),
        Column(name="memory_bytes", title=_("memory"), unit="B"),
        Column(name="bandwidth_bytes_per_s", title=_("bandwidth"), unit="B/s"),
        Column(name="bf16_flops_per_s", title=_("bf16\ndense"), unit="FLOP/s"),
        Column(name="fp8_flops_per_s", title=_("fp8\ndense"), unit="FLOP/s"),
        Column(name="scaleup_bytes_per_s", title=_("fast link\none way"), unit="B/s"),
        Column(name="tdp_watts", title=_("power"), unit="W"),
    )
    rows = []
    for name in hardware.accelerator_ids():
        device = hardware.load_accelerator(name)
        rows.append(
            {
                "id": name,
                "name": device.name,
                "vendor": device.vendor,
                "memory_bytes": device.memory_bytes or None,
                "bandwidth_bytes_per_s": device.peak_bandwidth or None,
                "bf16_flops_per_s": device.peak_flops.get("bf16"),
                "fp8_flops_per_s": device.peak_flops.get("fp8"),
                "scaleup_bytes_per_s": device.scaleup_bandwidth or None,
                "tdp_watts": device.tdp_watts or None,
            }
        )
    return _document(request, columns=columns, rows=tuple(rows))


def _systems(request: CatalogueRequest) -> CatalogueDocument:
    columns = (
        Column(name="id", title=_("id")),
        Column(name="name", title=_("name")),
        Column(name="accelerators", title=_("accelerators")),
        Column(name="devices", title=_("devices in\none domain"), unit="1"),
        Column(name="topology", title=_("topology")),
        Column(name="network_bytes_per_s", title=_("network\nper device"), unit="B/s"),
        Column(name="host_memory_bytes", title=_("host memory"), unit="B"),
        Column(name="counts", title=_("counts on offer")),
    )
    rows = []
    for name in hardware.system_ids():
        system = hardware.load_system(name)
        host_memory = system.host_memory or system.host_memory_per_device * system.devices
        rows.append(
            {
                "id": name,
                "name": system.name,
                "accelerators": list(system.accelerators),
                "devices": system.devices,
                "topology": system.topology,
                "network_bytes_per_s": system.network_bandwidth or None,
                "host_memory_bytes": host_memory or None,
                "counts": list(system.purchasable_counts),
            }
        )
    return _document(request, columns=columns, rows=tuple(rows))


def _models(request: CatalogueRequest) -> CatalogueDocument:
    columns = (
        Column(name="id", title=_("id")),
        Column(name="family", title=_("family")),
        Column(name="params", title=_("parameters"), unit="1"),
        Column(name="active_params", title=_("active\nper token"), unit="1"),
        Column(name="layers", title=_("layers"), unit="1"),
        Column(name="hidden", title=_("width"), unit="1"),
        Column(name="vocab", title=_("vocabulary"), unit="1"),
        Column(name="max_context", title=_("longest\ncontext"), unit="1"),
    )
    rows = []
    for name in models.model_ids():
        model = models.load_model(name)
        rows.append(
            {
                "id": name,
                "family": model.family,
                "params": params_total(model),
                "active_params": params_active(model),
                "layers": model.num_layers,
                "hidden": model.hidden,
                "vocab": model.vocab,
                "max_context": model.max_context or None,
            }
        )
    return _document(request, columns=columns, rows=tuple(rows))


def _prices(request: CatalogueRequest) -> CatalogueDocument:
    columns = (
        Column(name="accelerator", title=_("accelerator")),
        Column(name="sku", title="SKU"),
        Column(name="on_demand", title=_("on demand\nper hour")),
        Column(name="seen", title=_("seen")),
        Column(name="provider", title=_("provider")),
        Column(name="devices", title=_("devices"), unit="1"),
        Column(name="spot", title=_("spot\nper hour")),
        Column(name="one_year", title=_("1 year\nper hour")),
        Column(name="three_year", title=_("3 years\nper hour")),
        Column(name="purchase", title=_("to buy")),
        Column(name="currency", title=_("currency")),
        Column(name="region", title=_("region")),
        Column(name="kind", title=_("kind")),
        Column(name="confidence", title=_("confidence")),
        Column(name="source", title=_("source")),
    )
    found = sorted(prices.offers(as_of=request.as_of), key=lambda offer: offer.accelerator)
    rows = [{column.name: getattr(offer, column.name) for column in columns} for offer in found]
    stale = sum(prices.age_days(offer, request.as_of) > prices.STALE_DAYS for offer in found)
    text = _("{stale} of {all} prices were seen more than {days} days ago").format(
        stale=stale, all=len(found), days=prices.STALE_DAYS
    )
    return _document(request, columns=columns, rows=tuple(rows), warnings=(text,) if stale else ())


# -- one entry -------------------------------------------------------------------------------


def _show(request: CatalogueRequest) -> CatalogueDocument:
    wanted, understood = _understood(str(request.id))
    kinds: tuple[tuple[tuple[str, ...], Callable[[str], Iterator[Fact]]], ...] = (
        (hardware.accelerator_ids(), _accelerator_facts),
        (hardware.system_ids(), _system_facts),
        (models.model_ids(), _model_facts),
    )
    facts = tuple(fact for known, read in kinds if wanted in known for fact in read(wanted))
    if not facts:
        known = [name for names, _read in kinds for name in names]
        raise UnknownNameError(_("catalogue entry"), wanted, known, LISTING)
    return _document(request, id=wanted, facts=facts, warnings=understood)


def _understood(text: str) -> tuple[str, tuple[str, ...]]:
    """The id that a name stands for, and how it was read when it was not the id itself."""
    if text in hardware.system_ids():
        return text, ()
    try:
        name, sentence = resolve_accelerator(text)
        return name, (sentence,) if sentence else ()
    except UnknownNameError:
        return _model_name(text), ()


def _model_name(text: str) -> str:
    try:
        models.model_provenance(text)
    except UnknownNameError:
        return text
    return models.load_model(text).id


def _accelerator_facts(name: str) -> Iterator[Fact]:
    device = hardware.load_accelerator(name)
    for field in ("name", "vendor", "kind", "architecture", "family", "scaleup_link", "software"):
        if value := getattr(device, field):
            yield Fact(name=field, value=value)
    yield Fact(name="systems", value=[system.id for system in hardware.systems_of(name)])
    yield from _sourced(hardware.accelerator_provenance(name))


def _system_facts(name: str) -> Iterator[Fact]:
    system = hardware.load_system(name)
    for field in ("name", "accelerators", "topology", "network", "purchasable_counts", "note"):
        if value := getattr(system, field):
            yield Fact(name=field, value=value)
    yield from _sourced(hardware.system_provenance(name))


def _model_facts(name: str) -> Iterator[Fact]:
    model = models.load_model(name)
    came_from = models.model_provenance(name)
    yield Fact(name="family", value=model.family)
    yield Fact(name="params", value=params_total(model), unit="1", source="arithmetic")
    yield Fact(name="active_params", value=params_active(model), unit="1", source="arithmetic")
    for field, value in models.model_facts(name).items():
        origin = came_from.get(field)
        yield Fact(
            name=field,
            value=value,
            unit="1",
            source=origin.source if origin else "",
            retrieved=origin.retrieved if origin else "",
        )
    for field in ("num_layers", "hidden", "vocab", "tied_embeddings", "max_context"):
        yield Fact(name=field, value=getattr(model, field))


def _sourced(values: Mapping[str, Any]) -> Iterator[Fact]:
    for name, value in values.items():
        number, unit = _si(value.value)
        yield Fact(
            name=name,
            value=number,
            unit=unit,
            source=", ".join((value.source, *value.also)),
            retrieved=value.retrieved,
        )


def _si(text: str) -> tuple[float | str, str]:
    """A written value as an SI number with its unit; text that is no number stays text."""
    for unit in UNITS:
        try:
            return parse(text, unit), unit
        except UnitError:
            continue
    return text, ""


# -- check -----------------------------------------------------------------------------------


def _check(request: CatalogueRequest) -> CatalogueDocument:
    findings = list(_hardware_findings())
    findings += [finding for name in models.model_ids() for finding in _model_findings(name)]
    entries = (hardware.accelerator_ids(), hardware.system_ids(), models.model_ids())
    checked = sum(map(len, (*entries, *_money_rows())))
    return _document(request, findings=tuple(findings), checked=checked)


def _money_rows() -> Iterator[tuple[object, ...]]:
    """Rows of prices and energy; a file that cannot be read is a finding already."""
    for read in (prices.price_rows, energy_rows):
        try:
            yield read()
        except ChipwiseError:
            continue


def _hardware_findings() -> Iterator[Finding]:
    try:
        for found in check_catalogue():
            yield Finding(
                severity=found.severity,
                file=found.file,
                where=found.field,
                message=found.message,
            )
    except ChipwiseError as error:
        file = str(error.details.get("file", ""))
        yield Finding(severity="error", file=file, message=error.message)


def _model_findings(name: str) -> Iterator[Finding]:
    """A model's file loads, and its parameters add up to the exact count kept beside it."""
    file = f"{name}.toml"
    try:
        counted = params_total(models.load_model(name))
        exact = models.model_facts(name).get("exact_params")
    except ChipwiseError as error:
        yield Finding(severity="error", file=file, message=error.message)
        return
    if exact is not None and counted != exact:
        text = _("the parts add up to {counted} parameters, exact_params says {exact}")
        yield Finding(
            severity="error",
            file=file,
            where="exact_params",
            message=text.format(counted=f"{counted:,}", exact=f"{exact:,}"),
        )


_ANSWERS: dict[str, Callable[[CatalogueRequest], CatalogueDocument]] = {
    "accelerators": _accelerators,
    "systems": _systems,
    "models": _models,
    "prices": _prices,
    "show": _show,
    "check": _check,
}
