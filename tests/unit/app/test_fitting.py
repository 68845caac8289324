"""``fit``: the verdict, the most that fits, and remedies that hold what they promise."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from chipwise.app import fit
from chipwise.app.documents import FitDocument
from chipwise.app.requests import FitRequest


def asked(**fields: Any) -> FitDocument:
    values = {"model": "llama-2-7b", "on": "rtx-4090", **fields}
    document = fit(FitRequest.model_validate(values))
    assert isinstance(document, FitDocument)
    return document


def fields_of(flags: str) -> dict[str, Any]:
    """The request fields that some flags mean."""
    words = shlex.split(flags)
    pairs = zip(words[::2], words[1::2], strict=True)
    return {name.removeprefix("--").replace("-", "_"): value for name, value in pairs}


def test_full_training_of_7b_does_not_fit_24_gigabytes() -> None:
    # 16 bytes for each of 6.74 billion parameters are 108 GB
    document = asked()
    assert document.verdict == "does not fit"
    assert document.exit_code == 3
    assert document.memory.total_bytes > 108e9
    assert document.headroom_bytes < 0
    assert document.largest.micro_batch is None and document.largest.seq_len is None


def test_zero_2_on_four_cards_needs_44_gigabytes_of_states_each() -> None:
    document = asked(on="rtx-4090:4", shard="zero2")
    lines = {part.name: part.bytes for part in document.memory.parts}
    states = lines["weights"] + lines["gradients"] + lines["optimizer states"]
    assert states == pytest.approx(43.8e9, rel=0.01)  # 2·6.74 + 18·6.74/4
    assert document.exit_code == 3
    assert document.one_change is not None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"on": "rtx-4090:4", "shard": "zero2"},
        {"on": "a100-sxm-80", "recompute": "none", "micro_batch": 4},
        {"model": "llama-2-70b", "on": "h100-sxm:8"},
        {"on": "rtx-4090:2", "framework": "fsdp", "shard": "none"},
    ],
)
def test_a_remedy_that_fits_makes_the_job_fit_when_it_is_taken(fields: dict[str, Any]) -> None:
    document = asked(**fields)
    assert document.remedies
    for remedy in document.remedies:
        elsewhere = remedy.flags.startswith("--on")
        kept = fields if elsewhere else _pinned(document, fields)
        after = asked(**{**kept, **fields_of(remedy.flags)})
        too_much_for_host = any("host memory" in text for text in after.warnings)
        fits = after.verdict != "does not fit" and not too_much_for_host
        assert fits == remedy.fits_after, remedy.change
        if not elsewhere:
            saved = document.headroom_bytes - after.headroom_bytes
            assert -saved == pytest.approx(remedy.saves_bytes, rel=1e-6)


def _pinned(document: FitDocument, fields: dict[str, Any]) -> dict[str, Any]:
    """The job as it was evaluated, so that only the remedy differs."""
    layout = document.layout
    names = ("framework", "recompute", "shard", "micro_batch", "tp", "pp", "ep")
    return {**fields, **{name: getattr(layout, name) for name in names}}


def test_the_one_change_is_one_of_the_remedies_and_fits() -> None:
    document = asked()
    assert document.one_change in document.remedies
    assert document.one_change is not None and document.one_change.fits_after


def test_where_only_another_method_is_enough_a_combination_keeps_full_training() -> None:
    document = asked(on="rtx-4090:4", shard="zero2")
    assert document.one_change is not None and document.one_change.flags == "--method lora"
    (together,) = (one for one in document.remedies if one.steps)
    assert together.fits_after
    assert "--method" not in together.flags and "--seq" not in together.flags
    assert " ".join(step.flags for step in together.steps) == together.flags
    saved = sum(step.saves_bytes for step in together.steps)
    assert saved == pytest.approx(together.saves_bytes, rel=1e-9)
    # zero3 shards 13.5 GB of weights over four: three quarters of them leave each device
    assert together.steps[0].saves_bytes == pytest.approx(0.75 * 2 * 6.74e9, rel=0.3)


def test_measures_are_combined_only_where_no_single_one_is_enough() -> None:
    assert not any(" + " in one.change for one in asked().remedies)
    wasteful = {"framework": "fsdp", "shard": "none", "recompute": "none", "micro_batch": 4}
    document = asked(on="rtx-4090:8", **wasteful)
    best = document.one_change
    assert best is not None and best.fits_after
    assert "--shard zero3" in best.flags and best.flags.count("--") == 3
    singles = [one for one in document.remedies if " + " not in one.change]
    assert not any(one.fits_after for one in singles if not one.flags.startswith("--on"))


def test_a_checkpoint_that_does_not_fit_is_told_from_training_that_does_not() -> None:
    # 4-bit weights of 69 billion parameters: 36 GB whole, 18 GB on each of two devices
    two = {"model": "llama-2-70b", "on": "rtx-4090:2", "method": "qlora", "shard": "zero3"}
    document = asked(**two, framework="fsdp", seq=512, recompute="full")
    told = any("whole checkpoint" in text for text in document.warnings)
    loads_whole = any(part.name == "checkpoint being loaded" for part in document.memory.parts)
    assert told == loads_whole
    assert not any("whole checkpoint" in text for text in asked().warnings)


def test_offloading_is_no_remedy_where_the_host_is_too_small() -> None:
    # 16 bytes for each of 69 billion parameters are 1.1 TB; the node has 8 · 64 GB
    document = asked(model="llama-2-70b", on="rtx-4090:8")
    (offload,) = (one for one in document.remedies if one.flags == "--offload optimizer,params")
    assert not offload.fits_after


def test_remedies_come_in_the_order_a_person_tries_them() -> None:
    document = asked(
        on="rtx-4090:4", framework="fsdp", shard="none", micro_batch=4, recompute="none"
    )
    ladder = (
        *("--micro-batch", "--recompute", "--seq", "--shard", "--optimizer"),
        *("--method", "--offload", "--on"),
    )
    places = [
        ladder.index(one.flags.split()[0]) for one in document.remedies if " + " not in one.change
    ]
    assert places == sorted(places)
    assert set(places) == set(range(len(ladder)))


def test_what_fits_needs_no_remedy() -> None:
    document = asked(method="qlora", seq=2048)
    assert document.verdict == "fits"
    assert document.exit_code == 0
    assert document.remedies == () and document.one_change is None


@pytest.mark.parametrize("fields", [{"method": "qlora"}, {"on": "h100-sxm:8"}])
def test_the_largest_micro_batch_fits_and_one_more_does_not(fields: dict[str, Any]) -> None:
    base = {**fields, "seq": 1024, "recompute": "full"}
    most = asked(**base).largest.micro_batch
    assert most is not None
    assert asked(**base, micro_batch=most).verdict != "does not fit"
    assert asked(**base, micro_batch=most + 1).verdict == "does not fit"


def test_the_longest_sequence_fits_and_a_longer_one_does_not() -> None:
    base = {"method": "qlora", "recompute": "full"}
    longest = asked(**base, seq=1024).largest.seq_len
    assert longest is not None and longest % 64 == 0
    assert asked(**base, seq=longest).verdict != "does not fit"
    assert asked(**base, seq=longest + 64).verdict == "does not fit"


def test_a_stated_batch_allows_only_micro_batches_that_divide_it() -> None:
    document = asked(method="qlora", seq=512, global_batch=6)
    assert document.largest.micro_batch in (1, 2, 3, 6)


def test_micro_batch_1_is_assumed_and_said() -> None:
    document = asked(method="qlora")
    assert document.layout.micro_batch == 1
    assert any("micro-batch 1" in one.text for one in document.assumptions)
    stated = asked(method="qlora", micro_batch=1)
    assert not any("micro-batch" in one.text for one in stated.assumptions)


def test_headroom_moves_the_limit() -> None:
    plain, careful = asked(method="qlora"), asked(method="qlora", headroom=0.25)
    quarter = 0.25 * plain.memory.usable_bytes
    assert plain.headroom_bytes - careful.headroom_bytes == pytest.approx(quarter)


def test_offloaded_states_are_counted_on_the_host() -> None:
    document = asked(on="a100-sxm-80", offload="optimizer", recompute="full")
    # fp32 momentum and variance beside fp32 weights: 8 bytes a parameter
    assert document.host_bytes == pytest.approx(8 * 6_738_415_616, rel=1e-3)
    assert asked(on="a100-sxm-80").host_bytes is None


def test_more_than_the_host_has_is_warned_about() -> None:
    document = asked(model="llama-2-70b", on="rtx-4090:8", offload="optimizer,params")
    assert any("host memory" in text for text in document.warnings)


def test_the_largest_rank_fits_and_one_more_does_not() -> None:
    base = {"method": "qlora", "seq": 2048, "on": "rtx-3060"}
    largest = asked(**base).largest.rank
    assert largest is not None
    assert asked(**base, rank=largest).verdict != "does not fit"
    assert asked(**base, rank=largest + 1).verdict == "does not fit"
    assert asked(on="h100-sxm:8").largest.rank is None


@pytest.mark.parametrize(
    "fields",
    [
        {"method": "qlora", "seq": 2048},
        {"on": "rtx-4090:4", "shard": "zero2"},
        {"on": "h100-sxm:8"},
    ],
)
def test_the_smallest_device_and_count_hold_the_job(fields: dict[str, Any]) -> None:
    on = fields.get("on", "rtx-4090")
    device, _colon, count = on.partition(":")
    smallest = asked(**fields).smallest
    assert smallest.card is not None and smallest.devices is not None
    open_again = {name: value for name, value in fields.items() if name not in ("on", "shard")}
    system = f"{smallest.card}:{count}" if count else smallest.card
    assert asked(**open_again, on=system).verdict != "does not fit"
    fewest = asked(**open_again, on=f"{device}:{smallest.devices}")
    assert fewest.verdict != "does not fit"
    if smallest.devices > 1:
        fewer = asked(**{**fields, "on": f"{device}:{smallest.devices // 2}"})
        assert fewer.verdict == "does not fit"


def test_a_host_that_is_too_small_is_named_and_more_of_it_is_the_one_change() -> None:
    # 16-bit weights of 69 billion parameters are 138 GB while one process reads them
    base = {"model": "llama-2-70b", "on": "rtx-3090:2", "method": "qlora", "seq": 512}
    base |= {"shard": "fsdp", "offload": "optimizer,params"}
    document = asked(**base, host_memory="125GB")
    assert document.exit_code == 3 and document.headroom_bytes > 0
    assert document.largest.micro_batch is None
    assert document.one_change is not None
    assert document.one_change.flags == "--host-memory 129GiB"
    assert asked(**base, host_memory="129GiB").exit_code == 0


def test_a_model_built_whole_before_it_is_sharded_is_told_of() -> None:
    # 2 bytes for each of 6.74 billion parameters, and two buckets of 5e8
    document = asked(on="a100-sxm-80:4", shard="zero3")
    assert document.memory.load_unpartitioned_bytes == pytest.approx(15.5e9, rel=0.01)
    assert asked(on="a100-sxm-80:4", shard="zero1").memory.load_unpartitioned_bytes is None
    tight = asked(model="llama-2-70b", on="h100-sxm:32", shard="zero3")
    assert any("zero.Init" in text for text in tight.warnings)
