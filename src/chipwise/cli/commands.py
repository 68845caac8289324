"""The commands: name, what it answers, its arguments and flags, and the use case behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from chipwise.cli import data_flags, flags
from chipwise.cli.flags import Argument, Flag
from chipwise.i18n import _


@dataclass(frozen=True)
class Command:
    """One command of the tree.

    ``use_case`` is a function of ``app`` as ``module:name``, ``request`` the name of its request,
    with its module in front where that is not ``requests``.
    """

    path: tuple[str, ...]
    summary: Callable[[], str]
    use_case: str
    request: str
    example: str
    arguments: Callable[[], tuple[Argument, ...]] = tuple
    flags: Callable[[], tuple[Flag, ...]] = tuple
    fixed: dict[str, str] = field(default_factory=dict)
    pictures: tuple[str, ...] = ()
    """What of its answer can be drawn."""
    patches: bool = False
    """Whether its answer can be a change of the person's own file."""

    @property
    def name(self) -> str:
        """As it is typed, without the program: ``plan train``."""
        return " ".join(self.path)

    def output(self) -> tuple[Flag, ...]:
        """How the answer is given: none of these flags reaches the request."""
        drawn = flags.picture_flags(self.pictures) if self.pictures else ()
        patch = (flags.patch_flag(),) if self.patches else ()
        return (*drawn, *flags.output_flags(), *patch)


def groups() -> dict[str, str]:
    """The words that only hold other commands, with their meaning."""
    return {
        "plan": _("Ranked options for a job: which accelerator, how many, split how."),
        "estimate": _("One configuration: time, throughput, utilization, memory, with ranges."),
        "catalogue": _("The accelerators, systems, models and prices that chipwise knows."),
    }


COMMANDS: tuple[Command, ...] = (
    Command(
        ("plan", "train"),
        lambda: _("Rank systems and layouts for a training job."),
        "chipwise.app:plan_train",
        "PlanTrainRequest",
        "chipwise plan train llama-2-7b --tokens 2B --on rtx-4090:8,h100-sxm:8 --deadline 14d",
        lambda: (_model(),),
        lambda: (
            *flags.run_flags(),
            *flags.plan_flags(),
            *flags.cost_flags(),
            *_measurable_flags(),
        ),
        pictures=("pareto", "scaling", "memory", "time"),
    ),
    Command(
        ("plan", "finetune"),
        lambda: _("Rank hardware and methods for a fine-tune, consumer cards included."),
        "chipwise.app:plan_finetune",
        "finetune_request:PlanFinetuneRequest",
        "chipwise plan finetune llama-3.1-8b --examples 52k --lengths p50=400,p90=1200 --on any",
        lambda: (_model(),),
        lambda: (
            *data_flags.data_flags(),
            *flags.run_flags(),
            *flags.plan_flags(),
            *flags.cost_flags(),
            *_measurable_flags(),
            *data_flags.grid_flags(),
        ),
        pictures=("pareto", "scaling", "memory", "time"),
    ),
    Command(
        ("plan", "study"),
        lambda: _("Plan every job of a study file; results go to Parquet and can be resumed."),
        "chipwise.app:plan_study",
        "PlanStudyRequest",
        "chipwise plan study which-machine.toml --into results",
        lambda: (Argument("FILE", _("study file (TOML) with axes and jobs")),),
        lambda: flags.study_flags(),  # noqa: PLW0108 - as the others
    ),
    Command(
        ("fit",),
        lambda: _("Does it fit: memory line by line, the largest batch, the one change."),
        "chipwise.app:fit",
        "FitRequest",
        "chipwise fit llama-2-7b --on rtx-4090 --method qlora --seq 2048",
        lambda: (_model(),),
        lambda: (_task(), *_measurable_flags(), *flags.serving_flags()),
        pictures=("memory",),
        patches=True,
    ),
    Command(
        ("estimate", "train"),
        lambda: _("Time, throughput, utilization and memory of one training configuration."),
        "chipwise.app:estimate_train",
        "EstimateTrainRequest",
        "chipwise estimate train llama-2-7b --on h100-sxm:8 --micro-batch 2 --shard fsdp",
        lambda: (_model(),),
        lambda: (*_measurable_flags(), *flags.run_flags(), *flags.cost_flags()),
        pictures=("memory", "time"),
    ),
    Command(
        ("estimate", "serve"),
        lambda: _("What users of a served model see: first token, tokens, throughput, price."),
        "chipwise.app:estimate_serve",
        "serve_request:EstimateServeRequest",
        "chipwise estimate serve llama-3.1-8b --on h100-sxm --input-len 1k --concurrency 64",
        lambda: (Argument("MODEL", _("catalogue name, config.json, a folder or a hub id")),),
        lambda: flags.serve_speed_flags(),  # noqa: PLW0108 - as the others
    ),
    Command(
        ("explain",),
        lambda: _("Why: the tree of quantities behind a number, with formulas and sources."),
        "chipwise.app:explain",
        "ExplainRequest",
        "chipwise explain step_time llama-2-7b --on h100-sxm:8 --depth 3",
        lambda: (
            Argument("QUANTITY", _("quantity to explain, such as step_time"), required=False),
            Argument("MODEL", _("model; not needed for facts of a device"), required=False),
        ),
        lambda: (
            *_explain_flags(),
            *flags.estimate_flags(),
            *flags.run_flags(),
            *flags.cost_flags(),
        ),
    ),
    Command(
        ("validate",),
        lambda: _("Predictions against measurements: errors by source, device and metric."),
        "chipwise.app:validate",
        "ValidateRequest",
        "chipwise validate --leave-one-source-out --format md",
        lambda: (
            Argument("FILE", _("measurements (CSV); without it the bundled ones"), required=False),
        ),
        lambda: _validate_flags(),  # noqa: PLW0108 - defined below
    ),
    *(
        Command(
            ("catalogue", kind),
            summary,
            "chipwise.app.browse:catalogue",
            "CatalogueRequest",
            f"chipwise catalogue {kind}",
            fixed={"kind": kind},
        )
        for kind, summary in (
            ("accelerators", lambda: _("List accelerators with memory, bandwidth and peak.")),
            ("systems", lambda: _("List systems: devices per node and the links between them.")),
            ("models", lambda: _("List models with parameters and shape.")),
        )
    ),
    Command(
        ("catalogue", "prices"),
        lambda: _("List what devices cost by the hour and to buy, with the month it was seen."),
        "chipwise.app.browse:catalogue",
        "CatalogueRequest",
        "chipwise catalogue prices --as-of 2026-08-31",
        flags=lambda: (flags.as_of_flag(_("Prices")),),
        fixed={"kind": "prices"},
    ),
    Command(
        ("catalogue", "show"),
        lambda: _("Everything known of one entry, each value with its source."),
        "chipwise.app.browse:catalogue",
        "CatalogueRequest",
        "chipwise catalogue show h100-sxm",
        lambda: (Argument("ID", _("accelerator, system or model")),),
        fixed={"kind": "show"},
    ),
    Command(
        ("catalogue", "check"),
        lambda: _("Check the catalogue: sources, units, links between files, related values."),
        "chipwise.app.browse:catalogue",
        "CatalogueRequest",
        "chipwise catalogue check --catalogue ~/my-catalogue",
        fixed={"kind": "check"},
    ),
)


def _model() -> Argument:
    text = _("catalogue name, config.json, a folder with one, or a hub id; else as --job says")
    return Argument("MODEL", text, required=False)


def _task() -> Flag:
    return Flag(
        "task", _("what the memory is for"), "T", choices=("train", "serve"), section=_("Job")
    )


def _measurable_flags() -> tuple[Flag, ...]:
    """A configuration, and what was measured of it or beside it."""
    return (*flags.estimate_flags(), flags.observed_flag())


def _explain_flags() -> tuple[Flag, ...]:
    section = _("Explanation")
    return (
        Flag("depth", _("levels of the tree to unfold"), "N", section=section),
        Flag("list", _("list all quantities"), kind="switch", section=section),
    )


def _validate_flags() -> tuple[Flag, ...]:
    section = _("Validation")
    return (
        Flag("kind", _("kind of measurements, else recognised by the columns"), "K",
             choices=("training", "inference"), section=section),
        Flag("leave-one-source-out", _("refit the constants for each source from the others"),
             kind="switch", section=section),
        Flag("only-source", _("show one source only"), "NAME", section=section),
        Flag("observed", _("measured rows of the same site that calibrate the others"), "FILE",
             section=section),
    )  # fmt: skip


def known_fields() -> frozenset[str]:
    """Every field that a run file or the environment may hold, over all commands."""
    every = [flag.field for command in COMMANDS for flag in command.flags()]
    every += [argument.field for command in COMMANDS for argument in command.arguments()]
    return frozenset(every) | {flag.field for command in COMMANDS for flag in command.output()}
