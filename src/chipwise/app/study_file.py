"""A study file: axes whose combinations are training jobs to plan, and jobs of its own.

    [study]
    name = "which-machine"
    [fixed]
    tokens = "1T"
    [axes]
    model = ["llama-2-7b", "llama-3-70b"]
    on = ["h100-sxm:8x8", "tpu-v5p:64"]
    global_batch = [512, 1024]
    [[job]]
    model = "mixtral-8x7b"
    on = "b200-sxm:8"

Keys are the fields of ``plan train``, which are its flags.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from chipwise.app.requests import PlanTrainRequest
from chipwise.errors import DataFileError, UnknownNameError, UsageError
from chipwise.i18n import _

MOST_JOBS = 100_000
_TABLES = ("study", "fixed", "axes", "job")
Values = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """A name and the jobs, each as fields of a request."""

    name: str
    jobs: tuple[Values, ...]


def read_study(path: Path) -> Study:
    """The jobs of a study file, in the order of its axes, its own jobs last.

    Raises:
        DataFileError: the file cannot be read or is no TOML.
        UsageError: a key that ``plan train`` does not have, an empty axis, or too many jobs.
    """
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        text = _("{path}: {reason}").format(path=path, reason=error)
        raise DataFileError("study-file", text, path=str(path)) from None
    for name in read:
        if name not in _TABLES:
            raise UnknownNameError(_("study table"), name, _TABLES, "chipwise plan study --help")
    name = str(_table(read, "study").get("name", path.stem))
    jobs = tuple(_jobs(read))
    if not jobs:
        text = _("{path}: no jobs; give [axes] with a list each, or [[job]] tables")
        raise UsageError("empty-study", text.format(path=path), path=str(path))
    return Study(name, jobs)


def _jobs(read: Mapping[str, Any]) -> Iterator[Values]:
    fixed, axes = _table(read, "fixed"), _table(read, "axes")
    own = read.get("job", [])
    if not isinstance(own, list) or not all(isinstance(one, dict) for one in own):
        raise UsageError("study-job", _("'job' is a list of tables: write [[job]]"))
    for keys in (fixed, axes, *own):
        _check_keys(keys)
    for name, values in axes.items():
        if not isinstance(values, list) or not values:
            text = _('axis \'{name}\' is no list with values; write {name} = ["…", "…"]')
            raise UsageError("empty-axis", text.format(name=name), axis=name)
    count = (prod(len(values) for values in axes.values()) if axes else 0) + len(own)
    if count > MOST_JOBS:
        text = _("{count} jobs are more than the {most} of one study; split its axes")
        raise UsageError("too-many-jobs", text.format(count=count, most=MOST_JOBS), count=count)
    for chosen in product(*axes.values()) if axes else ():
        yield {**fixed, **dict(zip(axes, chosen, strict=True))}
    for one in own:
        yield {**fixed, **one}


def _table(read: Mapping[str, Any], name: str) -> Values:
    table = read.get(name, {})
    if not isinstance(table, dict):
        raise UsageError("study-table", _("'{name}' is no table").format(name=name))
    return dict(table)


def _check_keys(keys: Mapping[str, Any]) -> None:
    known = set(PlanTrainRequest.model_fields) - {"ray"}
    for name in keys:
        if name.replace("-", "_") not in known:
            listing = "chipwise plan train --help"
            raise UnknownNameError(_("study key"), name, sorted(known), listing)
