"""Jobs with what the user's own runs say of their machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chipwise.app.documents import Assumption, Observed
from chipwise.app.evaluation import Evaluated, evaluate
from chipwise.app.jobs import Complete, complete
from chipwise.app.observing import (
    Observations,
    Site,
    learn_sites,
    observed_of,
    read_observed,
    site_of,
    site_words,
    unstated_words,
)
from chipwise.app.refusals import flag_of
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.job import TrainingJob

_SINGLE = ("micro_batch", "recompute")
_SEVERAL = ("shard", "tp", "pp")


@dataclass(frozen=True)
class Seen:
    """What observations add to a document; empty where nothing was observed."""

    site: Site | None = None
    assumptions: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def document(self) -> Observed | None:
        """The part of the document."""
        return observed_of(self.site) if self.site else None

    @property
    def memory_factor(self) -> float:
        """Observed over predicted memory."""
        return self.site.memory_factor if self.site else 1.0


def evaluate_observed(
    stated: TrainingJob, texts: Sequence[str], overrides: Mapping[str, float]
) -> tuple[Complete, Evaluated, Seen]:
    """A job with its gaps filled, evaluated, and moved by the runs that were observed.

    Args:
        stated: the job, gaps and all.
        texts: the values of ``--observed``.
        overrides: values that replace inputs, constants or quantities.

    Raises:
        UsageError: an observation that cannot be read or used, or an impossible layout.
    """
    given = read_observed(texts)
    if not given:
        one = complete(stated, overrides)
        return one, evaluate(one.job, one.strategy, overrides), Seen()
    one = complete(stated, overrides)
    plain = evaluate(one.job, one.strategy, overrides)
    site = site_of(learn_sites(given, plain), stated.cluster.accelerator.id)
    if not given.values:
        one = complete(stated, overrides, 1 / site.memory_factor)
    point = evaluate(one.job, one.strategy, overrides, shift=site.shift)
    warnings = tuple(_warnings(given, site, stated, overrides))
    return one, point, Seen(site, (site_words(site),), warnings)


def _warnings(
    given: Observations, site: Site, stated: TrainingJob, overrides: Mapping[str, float]
) -> list[str]:
    found = list(site.notes)
    if given.values:
        found += unstated_words(missing_flags(stated))
    if given.files and overrides:
        found.append(_("--set does not count in the predictions of the rows of --observed files"))
    return found


def missing_flags(stated: TrainingJob) -> list[str]:
    """Flags without which a measured value is not known to be of the configuration evaluated."""
    names = (*_SINGLE, *(_SEVERAL if stated.cluster.num_devices > 1 else ()))
    missing = [name for name in names if getattr(stated.strategy, name) is None]
    if stated.workload.seq_len is None:
        missing.insert(0, "seq")
    if stated.workload.global_batch is None:
        missing.append("global_batch")
    return [flag_of(name) for name in missing]


def sites_of(
    jobs: Sequence[TrainingJob], texts: Sequence[str], overrides: Mapping[str, float]
) -> dict[str, Site]:
    """What own runs say of the accelerators of several jobs, by accelerator.

    Args:
        jobs: the job on each system, as stated.
        texts: the values of ``--observed``.
        overrides: values that replace inputs, constants or quantities.

    Raises:
        UsageError: an observation that cannot be read, or that is of none of the accelerators.
    """
    given = read_observed(texts)
    if not given:
        return {}
    point = _stated_point(jobs, overrides) if given.values else None
    found = learn_sites(given, point)
    here = {job.cluster.accelerator.id for job in jobs}
    if not here & set(found):
        site_of(found, sorted(here)[0])
    return {name: site for name, site in found.items() if name in here}


def _stated_point(jobs: Sequence[TrainingJob], overrides: Mapping[str, float]) -> Evaluated:
    """The one configuration that the flags state in full, evaluated.

    Raises:
        UsageError: several systems, or a configuration with gaps.
    """
    missing = missing_flags(jobs[0])
    if len(jobs) > 1 or missing:
        said = (
            _("several systems are asked for")
            if len(jobs) > 1
            else _("not stated: {flags}").format(flags=", ".join(missing))
        )
        raise UsageError(
            "observed-configuration",
            _(
                "an observed value is of one configuration, stated in full ({said}); give the runs "
                "as a CSV file instead, or ask 'estimate train' about that configuration"
            ).format(said=said),
            missing=missing,
        )
    one = complete(jobs[0], overrides)
    return evaluate(one.job, one.strategy, overrides)


def site_warnings(
    jobs: Sequence[TrainingJob],
    texts: Sequence[str],
    overrides: Mapping[str, float],
    sites: Mapping[str, Site],
) -> list[str]:
    """What own runs do not cover, and what is odd about them."""
    if not sites:
        return []
    names = dict.fromkeys(
        job.cluster.name for job in jobs if job.cluster.accelerator.id not in sites
    )
    text = _("no own run was on {systems}: their numbers are not moved, so the ranking compares "
             "calibrated with uncalibrated ones")  # fmt: skip
    found = [text.format(systems=", ".join(names))] if names else []
    if overrides and read_observed(texts).files:
        found.append(_("--set does not count in the predictions of the rows of --observed files"))
    return [*found, *(note for site in sites.values() for note in site.notes)]
