"""Flags of a fine-tune: the examples, how they fill sequences, and grids of runs."""

from __future__ import annotations

from chipwise.cli.flags import Flag
from chipwise.i18n import _


def data_flags() -> tuple[Flag, ...]:
    """What is trained on, and how examples are brought to one length."""
    section = _("Data")
    return (
        Flag("data", _("file of examples: .jsonl, .json, .csv, .tsv or .parquet, sampled"), "FILE",
             section=section),
        Flag("text-field", _("column that holds the text or the messages"), "NAME",
             section=section),
        Flag("tokenizer", _("tokenizer.json that counts the tokens, else characters do"), "FILE",
             section=section),
        Flag("length", _("mean tokens of an example, without a file"), "N", section=section),
        Flag("lengths", _("quantiles of the tokens of an example, without a file, such as "
             "p50=400,p90=1200,max=4096"), "P=N,…", section=section),
        Flag("packing", _("examples fill sequences one after the other"), kind="pair",
             section=section),
        Flag("padding", _("to the longest of a micro-batch (usual), to --seq, or none"), "P",
             choices=("longest", "max", "free"), section=section),
        Flag("group-by-length", _("examples of like length share a micro-batch"), kind="pair",
             section=section),
    )  # fmt: skip


def grid_flags() -> tuple[Flag, ...]:
    """Several runs with other hyperparameters."""
    section = _("Experiments")
    return (
        Flag("grid", _("values of a hyperparameter, every combination is a run: rank=8,16,32 "
             "(repeatable)"), "NAME=V,V", kind="list", section=section),
        Flag("instances", _("copies of the system that share the runs"), "N", section=section),
    )  # fmt: skip
