"""The use case ``explain``: the tree of quantities behind one value of a job or a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from chipwise.app import costing
from chipwise.app.assumptions import assumptions_of
from chipwise.app.configured import config_assumptions, config_warnings, sources_of
from chipwise.app.documents_facts import (
    ExplainDocument,
    Explained,
    QuantitiesDocument,
    QuantityEntry,
)
from chipwise.app.evaluation import Evaluated, evaluate
from chipwise.app.jobs import clusters_of, complete, stated_job
from chipwise.app.overrides import read_overrides
from chipwise.app.requests import ExplainRequest
from chipwise.app.running import assumed_of_run
from chipwise.calibration import shipped
from chipwise.catalogue.derive import explain_bandwidth, explain_peak
from chipwise.catalogue.hardware import accelerator_provenance, system_provenance
from chipwise.defaults import PEAK_OF
from chipwise.errors import UnknownNameError, UsageError
from chipwise.explanation import Explanation
from chipwise.i18n import _
from chipwise.physics import MODEL
from chipwise.physics.inputs import INPUTS
from chipwise.quantity import Given
from chipwise.spec.hardware import Cluster

LISTING = "chipwise explain --list"
PEAK = "peak_flops"
ALIASES = {
    "peak_memory": "allocated_bytes",
    "memory": "needed_bytes",
    "total_bytes": "allocated_bytes",
    "verdict": "memory_share",
    "step_time_s": "step_time",
    "duration_s": "duration",
}
"""Keys of the documents and plain words, and the quantity that each means."""
BANDWIDTH = "peak_bandwidth"
_OF_DEVICE = {
    "peak_bandwidth": "bandwidth",
    "visible_bytes": "visible_memory",
    "host_bandwidth": "host_bandwidth",
    "tdp": "tdp",
    "power_cap": "tdp",
    "intra_bandwidth": "scaleup_bandwidth",
}
"""Input columns and the field of the accelerator's file that each comes from."""
_OF_SYSTEM = {"network_bandwidth": "network_bandwidth", "link_bandwidth": "intra_bandwidth"}
"""Fields of a system's file and the input column that each becomes."""
_BENCHMARKED = "matmul_fraction_16bit"


def explain(request: ExplainRequest) -> ExplainDocument | QuantitiesDocument:
    """The tree behind a quantity, or all quantities.

    Raises:
        UnknownNameError: no quantity, input or constant has that name.
        UsageError: a quantity of a job without a model, several systems, an impossible layout.
    """
    if request.list:
        return QuantitiesDocument(inputs={"list": True}, quantities=tuple(_entries()))
    name = ALIASES.get(str(request.quantity), str(request.quantity))
    if name not in _known():
        raise UnknownNameError(_("quantity"), name, _known(), LISTING)
    if request.model is None or name == PEAK:
        return _of_device(request, name)
    overrides = read_overrides(request.set)
    one, sources = complete(stated_job(request), overrides), sources_of(request.job, request.tool)
    wanted = (name,) if name in MODEL else ()
    point = evaluate(one.job, one.strategy, overrides, also=wanted)
    _check_length(name, request, overrides)
    costing.require_known(name, point)
    values = point.memory if name in point.memory_quantities else point.time
    tree = MODEL.explain(name, values, _given(point), request.depth)
    return ExplainDocument(
        inputs=request.model_dump(exclude_none=True),
        assumptions=(*config_assumptions(sources), *assumptions_of(one)),
        warnings=tuple(config_warnings(sources)),
        **_fields(_explained(tree)),
    )


def _check_length(name: str, request: ExplainRequest, overrides: Mapping[str, float]) -> None:
    """Quantities of a whole run need its length.

    Raises:
        UsageError: it was not said how much to train on.
    """
    given = {*INPUTS, *overrides, *(constant.name for constant in shipped().constants)}
    steps = MODEL.order((name,), given) if name in MODEL else ()
    if request.has_length or "tokens" in overrides:
        return
    if any("tokens" in step.needs for step in steps):
        text = _("'{name}' is of a whole run: say how long with --tokens, or --epochs and "
                 "--examples").format(name=name)  # fmt: skip
        raise UsageError("no-length", text, quantity=name)


def _known() -> dict[str, None]:
    constants = (constant.name for constant in shipped().constants)
    return dict.fromkeys((*MODEL, *INPUTS, *constants, PEAK))


def _entries() -> Iterator[QuantityEntry]:
    for name, step in MODEL.items():
        yield QuantityEntry(name=name, unit=step.unit, meaning=step.summary, source=step.source)
    for name, about in INPUTS.items():
        yield QuantityEntry(name=name, unit=about.unit, meaning=about.meaning)
    seen: set[str] = set()
    for constant in shipped().constants:
        if constant.name not in seen:
            seen.add(constant.name)
            yield QuantityEntry(
                name=constant.name,
                unit=constant.unit,
                meaning=constant.meaning,
                source=constant.source,
            )
    yield QuantityEntry(name=PEAK, unit="FLOP/s", meaning=_("dense peak of a device, by dtype"))


def _given(point: Evaluated) -> dict[str, Given]:
    """What is known of every input of one job: meaning, unit, source and basis."""
    cluster = point.job.cluster
    given = dict(INPUTS) | shipped().given(point.keys) | costing.given_of(point.job)
    given |= _hardware(cluster, point.job.workload.precision or "bf16")
    given |= {name: replace(INPUTS[name], source="assumed", basis="assumed")
              for name in assumed_of_run(point.job)}  # fmt: skip
    for name in point.overridden:
        known = given.get(name) or Given(MODEL[name].unit, MODEL[name].summary)
        given[name] = replace(known, source="--set", basis="measured")
    return given


def _hardware(cluster: Cluster, precision: str) -> dict[str, Given]:
    """The hardware inputs with the catalogue's sources."""
    stated = accelerator_provenance(cluster.accelerator.id)
    peaks = {"peak_matmul": f"peak.{PEAK_OF[precision]}", "peak_16bit": "peak.bf16"}
    if "peak.bf16" not in stated:
        peaks["peak_16bit"] = "peak.fp16"
    found = {}
    for name, field in (_OF_DEVICE | peaks).items():
        if field in stated:
            value = stated[field]
            found[name] = replace(INPUTS[name], source=value.source, basis=value.basis)
    if cluster.node.id != "single":
        for field, value in system_provenance(cluster.node.id).items():
            if name := _OF_SYSTEM.get(field, ""):
                found[name] = replace(INPUTS[name], source=value.source, basis=value.basis)
    if cluster.accelerator.matmul_fraction:
        found[_BENCHMARKED] = replace(INPUTS[_BENCHMARKED], source="microbench", basis="measured")
    return found


def _of_device(request: ExplainRequest, name: str) -> ExplainDocument:
    """A fact of a device: its peak or bandwidth, worked out from its parts."""
    clusters = clusters_of(request)
    if len(clusters) != 1:
        raise UsageError("one-system", _("explain one system at a time"), on=request.on)
    accelerator = clusters[0].accelerator
    if name == BANDWIDTH:
        tree: Explanation = explain_bandwidth(accelerator.id)
    elif name == PEAK:
        peaks = accelerator.peak_flops
        tree = explain_peak(
            accelerator.id, request.precision or next(d for d in (*_FIRST, *peaks) if d in peaks)
        )
    else:
        raise UsageError(
            "no-model",
            _("'{name}' is a quantity of a job: name a MODEL too").format(name=name),
            quantity=name,
        )
    return ExplainDocument(
        inputs=request.model_dump(exclude_none=True),
        warnings=(clusters[0].understood,) if clusters[0].understood else (),
        **_fields(_explained(tree)),
    )


_FIRST = ("bf16", "fp16")


def _explained(tree: Explanation) -> Explained:
    return Explained(
        quantity=tree.quantity,
        value=tree.value,
        unit=tree.unit,
        formula=tree.formula,
        source=tree.source,
        basis=tree.basis,
        meaning=tree.meaning,
        needs=tuple(_explained(need) for need in tree.needs),
    )


def _fields(tree: Explained) -> dict[str, object]:
    return {name: getattr(tree, name) for name in Explained.model_fields}
