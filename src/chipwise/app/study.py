"""The use case ``plan study``: thousands of plans, each stored as soon as it is made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import Any

from chipwise.app.documents_plan import Plan, PlanDocument, StudyDocument
from chipwise.app.plan_search import runner_of
from chipwise.app.planning import plan_train
from chipwise.app.requests import PlanStudyRequest, PlanTrainRequest, parse_request
from chipwise.app.study_file import Values, read_study
from chipwise.app.study_store import Store
from chipwise.errors import ChipwiseError

_AT_ONCE = 16
"""Jobs of one part, which is what an interruption can cost."""
Progress = Callable[[int, int], None]


def plan_study(request: PlanStudyRequest, progress: Progress | None = None) -> StudyDocument:
    """Plan every job of a study that is not stored yet.

    Args:
        request: the study file, the folder of its results and where to work.
        progress: called with how many jobs are stored and how many there are.

    Raises:
        UsageError: the file, the folder or the cluster cannot be used.
    """
    began = perf_counter()
    path = Path(request.file)
    study = read_study(path)
    folder = Path(request.into) if request.into else path.with_suffix("")
    store = Store(folder, study.name)
    every = {identity(values): (place, values) for place, values in enumerate(study.jobs, 1)}
    stored = store.ids()
    left = [(name, *every[name]) for name in every if name not in stored]
    failed = 0
    with runner_of(request.ray) as runner:
        for start in range(0, len(left), _AT_ONCE):
            rows = runner.map(row_of, left[start : start + _AT_ONCE])
            store.add(rows)
            failed += sum(row["status"] == "failed" for row in rows)
            if progress:
                progress(len(every) - len(left) + start + len(rows), len(every))
    return StudyDocument(
        inputs=request.model_dump(exclude_none=True),
        study=study.name,
        into=str(folder),
        jobs=len(every),
        resumed=len(every) - len(left),
        planned=len(left) - failed,
        failed=failed,
        elapsed_s=perf_counter() - began,
    )


def identity(values: Values) -> str:
    """What a job is, with the version and data that answer it: another answer, another name."""
    text = json.dumps([values, version("chipwise"), _fingerprint()], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def _fingerprint() -> str:
    """Of all data that come with this version."""
    total = hashlib.sha256()
    for name, content in sorted(_data(Path(str(files("chipwise.catalogue") / "data")))):
        total.update(name.encode() + content)
    return total.hexdigest()


def _data(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*.*"):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()


def row_of(job: tuple[str, int, Values]) -> dict[str, Any]:
    """One job planned, as the row that is stored; what cannot be planned says why."""
    name, place, values = job
    row: dict[str, Any] = {
        "id": name,
        "job": place,
        "request": json.dumps(values, sort_keys=True, default=str),
        "model": str(values.get("model", "")),
    }
    try:
        fields = {key.replace("-", "_"): value for key, value in values.items()}
        document = plan_train(parse_request(PlanTrainRequest, fields))
    except ChipwiseError as error:
        return row | {"status": "failed", "error": error.code, "reason": error.message}
    if not document.plans:
        reason = "; ".join(f"{one.system}: {one.reason}" for one in document.no_fit)
        return row | {"status": "does not fit", "reason": reason} | _counts(document)
    return row | {"status": "planned"} | _best(document.plans[0]) | _counts(document)


def _counts(document: PlanDocument) -> dict[str, Any]:
    return {"candidates": document.search.candidates, "evaluated": document.search.evaluated}


def _best(plan: Plan) -> dict[str, Any]:
    layout = plan.layout
    names = ("framework", "shard", "recompute", "tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch",
             "global_batch", "seq_len")  # fmt: skip
    found: dict[str, Any] = {name: getattr(layout, name) for name in names}
    found |= {"system": plan.system, "devices": plan.devices, "verdict": plan.verdict}
    found |= {
        "step_time_s": plan.step_time_s.likely,
        "tokens_per_s": plan.tokens_per_s.likely,
        "mfu": plan.mfu.likely,
        "device_hours": plan.device_hours.likely,
    }
    for name, unit, span in (
        ("duration", "s", plan.duration_s),
        ("cost", "usd", plan.cost_usd),
        ("energy", "kwh", plan.energy_kwh),
    ):
        if span is not None:
            found |= {f"{name}_{unit}": span.likely, f"{name}_low_{unit}": span.low,
                      f"{name}_high_{unit}": span.high}  # fmt: skip
    return found
