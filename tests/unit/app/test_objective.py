"""Objectives as flags: what goes together, what is assumed, what the answers say."""

from __future__ import annotations

from typing import Any

import pytest

from chipwise.app import estimate_train, explain, fit, plan_train
from chipwise.app.documents import EstimateDocument, FitDocument
from chipwise.app.documents_facts import ExplainDocument
from chipwise.app.requests import (
    EstimateTrainRequest,
    ExplainRequest,
    FitRequest,
    PlanTrainRequest,
    parse_request,
)
from chipwise.errors import ChipwiseError, UsageError
from chipwise.spec.objective import Objective, completed, lengths

ON = {"model": "llama-3.2-1b", "on": "a100-sxm-80:8"}
LOSSES: dict[str, dict[str, Any]] = {
    **{loss: {} for loss in ("dpo", "orpo", "kto", "reward", "ppo", "grpo")},
    "distill": {"teacher": "llama-3.2-3b"},
}


def fitted(**stated: object) -> FitDocument:
    document = fit(parse_request(FitRequest, {**ON, **stated}))
    assert isinstance(document, FitDocument)
    return document


def estimated(**stated: object) -> EstimateDocument:
    return estimate_train(parse_request(EstimateTrainRequest, {**ON, **stated}))


def sizes(document: FitDocument | EstimateDocument) -> dict[str, float]:
    return {part.name: part.bytes for part in document.memory.parts}


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"group_size": 4}, "--group-size needs --loss grpo, but the loss is sft"),
        ({"loss": "ppo", "group_size": 4}, "--group-size needs --loss grpo"),
        ({"reference": "copy"}, "--reference needs --loss dpo or grpo or kto or ppo"),
        ({"loss": "dpo", "prompt_len": 100}, "--prompt-len needs --loss grpo or ppo"),
        ({"loss": "grpo", "critic": "gpt2"}, "--critic needs --loss ppo"),
        ({"loss": "distill"}, "needs --teacher MODEL"),
        ({"loss": "grpo", "reference": "precomputed"}, "needs a fixed data set"),
        ({"loss": "grpo", "rollout": "apart"}, "needs --rollout-devices N"),
        ({"loss": "grpo", "rollout_devices": 2}, "needs --rollout apart"),
        ({"loss": "grpo", "rollout_memory": 0}, "leaves the engine no memory"),
        (
            {"loss": "grpo", "rollout": "apart", "rollout_devices": 2, "rollout_sleep": True},
            "is for --rollout shared",
        ),
        ({"loss": "dpo", "reference": "adapter-off"}, "use '--reference copy'"),
        (
            {"loss": "grpo", "seq": 1024, "prompt_len": 512, "completion_len": 1024},
            "nearest valid seq: 1536",
        ),
        ({"loss": "grpo", "seq": 512, "prompt_len": 512}, "nearest valid seq: 513"),
        ({"loss": "grpo", "group_size": 6, "global_batch": 16}, "global-batch: 12 or 18"),
        ({"loss": "grpo", "global_batch": 4}, "no multiple of the group size 8"),
        ({"loss": "dpoo"}, "dpo"),
        ({"loss": "ppo", "critic": "llama-3.2-1c"}, "did you mean 'llama-3.2-1b'"),
    ],
)
def test_what_does_not_go_together_is_refused_and_mended(stated: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fitted(**stated)


def test_a_sequence_is_prompt_and_completion() -> None:
    assert lengths(Objective(loss="grpo"), None) == (512, 512)
    assert lengths(Objective(loss="grpo"), 800) == (400, 400)
    assert lengths(Objective(loss="grpo"), 4096) == (512, 3584)
    assert lengths(Objective(loss="grpo", completion_len=3000), 4096) == (1096, 3000)
    assert lengths(Objective(loss="grpo", prompt_len=100), None) == (100, 512)
    assert fitted(loss="ppo", prompt_len=200, completion_len=300).layout.seq_len == 500


def test_the_usual_reference_needs_a_copy_only_where_there_are_no_adapters() -> None:
    assert completed(Objective(loss="dpo"), True, 512).reference == "adapter-off"
    assert completed(Objective(loss="dpo"), False, 512).reference == "copy"
    assert completed(Objective(loss="grpo"), False, 512).reference == "none"
    assert completed(Objective(loss="orpo"), False, 512).reference == "none"


def test_next_token_training_is_what_it_was() -> None:
    plain = fitted(seq=1024)
    assert "loss" not in plain.layout.other
    assert not {"reference weights", "rollout engine weights"} & set(sizes(plain))
    assert estimated(loss="sft", seq=1024).step_time_s == estimated(seq=1024).step_time_s


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_can_be_fitted_estimated_and_its_parts_add_up(loss: str) -> None:
    document = estimated(loss=loss, seq=1024, **LOSSES[loss])
    assert fitted(loss=loss, seq=1024, **LOSSES[loss]).verdict == "fits"
    assert sum(sizes(document).values()) == pytest.approx(document.memory.total_bytes)
    parts = sum(part.seconds for part in document.time_parts)
    assert parts == pytest.approx(document.step_time_s.likely)
    assert document.layout.other["loss"] == loss


def test_a_preference_loss_keeps_two_sequences_and_a_reference() -> None:
    stated = {"seq": 1024, "micro_batch": 16, "recompute": "none", "shard": "none"}
    plain, pairs = sizes(fitted(**stated)), sizes(fitted(**stated, loss="dpo"))
    without = sizes(fitted(**stated, loss="orpo"))
    assert pairs["kept activations"] == pytest.approx(2 * plain["kept activations"])
    assert pairs["logits and loss"] == pytest.approx(2 * plain["logits and loss"])
    # 1,235,814,400 parameters (tied), 2 bytes each
    assert pairs["reference weights"] == pytest.approx(2 * 1_235_814_400)
    assert {**without, "reference weights": pairs["reference weights"]} == pytest.approx(pairs)


@pytest.mark.parametrize("kind", ["none", "precomputed", "offloaded"])
def test_a_reference_elsewhere_takes_no_device_memory(kind: str) -> None:
    kept = fitted(loss="dpo", seq=1024, reference=kind)
    assert "reference weights" not in sizes(kept)
    copied = fitted(loss="dpo", seq=1024)
    assert copied.memory.total_bytes - kept.memory.total_bytes == pytest.approx(
        sizes(copied)["reference weights"]
    )


def test_a_reference_on_the_host_is_counted_there() -> None:
    stated = {"loss": "dpo", "seq": 1024, "shard": "none"}
    host = fitted(**stated, reference="offloaded").host_bytes
    # each of the 8 devices has its own copy there
    assert host == pytest.approx(8 * 2 * 1_235_814_400)
    assert fitted(**stated).host_bytes is None


def test_a_reward_model_has_a_score_for_a_head() -> None:
    parts = sizes(fitted(loss="reward", seq=1024, micro_batch=4))
    assert parts.get("logits and loss", 0.0) < 1e6


def test_ppo_has_a_critic_and_a_reward_model_of_the_size_stated() -> None:
    own = sizes(fitted(loss="ppo"))
    small = sizes(fitted(loss="ppo", critic="gpt2", reward_model="gpt2"))
    # gpt2 has 124,439,808 parameters
    ratio = 124_439_808 / 1_235_814_400
    for name in ("critic states", "reward model weights"):
        assert small[name] == pytest.approx(ratio * own[name])


def test_the_engine_shares_the_devices_sleeps_there_or_is_apart() -> None:
    stated = {"loss": "grpo", "completion_len": 4096, "rollout_memory": 0.7}
    awake = fitted(**stated, rollout_sleep=False)
    asleep = fitted(**stated)
    apart = fitted(**stated, rollout="apart", rollout_devices=4)
    names = {"rollout engine weights", "rollout KV cache"}
    assert names <= set(sizes(awake)) and names <= set(sizes(asleep))
    assert not names & set(sizes(apart))
    assert apart.memory.total_bytes < asleep.memory.total_bytes < awake.memory.total_bytes
    # together they fill 70 % of what the device shows
    engine = sum(sizes(asleep)[name] for name in names)
    assert engine == pytest.approx(0.7 * 85.17e9, rel=0.02)


def test_a_step_with_generation_is_longer_and_more_epochs_share_it_out() -> None:
    step = {"loss": "grpo", "global_batch": 64, "completion_len": 2048}
    one = estimated(**step)
    named = {part.name: part.seconds for part in one.time_parts}
    assert named["generating answers"] > 0 and named["scoring without gradients"] > 0
    again = {part.name: part.seconds for part in estimated(**step, ppo_epochs=4).time_parts}
    assert again["generating answers"] == pytest.approx(named["generating answers"] / 4)


def test_devices_apart_are_paid_for() -> None:
    stated = {"loss": "grpo", "examples": 1000, "rollout": "apart"}
    two, four = (estimated(**stated, rollout_devices=n) for n in (2, 4))
    assert two.cost_usd and four.cost_usd and two.duration_s and four.duration_s
    # 8 devices train; with 4 beside them 12 are paid for, with 2 it is 10
    price = four.cost_usd.likely / four.duration_s.likely
    assert price == pytest.approx(1.2 * two.cost_usd.likely / two.duration_s.likely)
    assert four.step_time_s.likely < two.step_time_s.likely


def test_examples_are_prompts_and_pairs_are_two_sequences() -> None:
    # 1,000 prompts × 8 completions × 1,024 tokens; 1,000 pairs of 1,024 tokens
    run = estimated(loss="grpo", examples=1000, seq=1024).run
    pairs = estimated(loss="dpo", examples=1000, seq=1024).run
    assert run is not None and run.tokens == 8000 * 1024
    assert pairs is not None and pairs.tokens == 2000 * 1024


def test_what_is_assumed_of_an_objective_is_said() -> None:
    said = " ".join(assumption.text for assumption in fitted(loss="ppo").assumptions)
    for words in ("reference: copy", "prompts of 512 tokens", "critic like the policy",
                  "on the devices that train", "engines are slower"):  # fmt: skip
        assert words in said


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("companion_bytes", "reference_bytes"),
        ("companion_time", "rollout_time"),
        ("decode_step_time", "decode_step_bytes"),
        ("reference_bytes", "frozen_copy_bytes"),
    ],
)
def test_companions_can_be_explained(name: str, needs: str) -> None:
    document = explain(parse_request(ExplainRequest, {**ON, "quantity": name, "loss": "ppo"}))
    assert isinstance(document, ExplainDocument)
    assert needs in {need.quantity for need in document.needs} and document.value > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_can_be_planned_as_it_is_estimated(loss: str) -> None:
    stated = {**ON, "loss": loss, "examples": 10_000, "seq": 1024, "global_batch": 64}
    request = parse_request(PlanTrainRequest, {**stated, **LOSSES[loss], "top": 1})
    best = plan_train(request).plans[0]
    split = best.layout
    same = {name: getattr(split, name) for name in (
        "dp", "tp", "pp", "cp", "micro_batch", "recompute", "shard", "framework")}  # fmt: skip
    again = estimated(
        loss=loss,
        seq=1024,
        global_batch=64,
        chunked_loss=split.other.get("chunked_loss"),
        compile=split.other.get("compiled"),
        **{**same, **LOSSES[loss], "recompute_every": split.recompute_every}
        if split.recompute == "full"
        else {**same, **LOSSES[loss]},
    )
    assert again.step_time_s.likely == pytest.approx(best.step_time_s.likely)


def test_what_fits_nowhere_is_an_answer() -> None:
    with pytest.raises(ChipwiseError):
        fit(parse_request(FitRequest, {**ON, "loss": "ppo", "completion_len": 0}))
    assert fitted(loss="ppo", model="llama-2-70b").verdict == "does not fit"


def test_time_with_generation_is_no_calibrated_number_and_is_less_sure() -> None:
    plain, rollout = estimated(seq=1024).step_time_s, estimated(loss="grpo").step_time_s
    assert (plain.basis, rollout.basis) == ("calibrated", "datasheet")
    assert rollout.high / rollout.likely > (plain.high / plain.likely) ** 2


def test_remedies_reach_the_models_beside_the_policy() -> None:
    stated = {"model": "llama-3.1-8b", "loss": "ppo", "completion_len": 2048}
    flags = {remedy.flags for remedy in fitted(**stated, rollout_memory=0.8).remedies}
    assert {"--rollout-memory 0.4", "--reference offloaded"} <= flags
    awake = fitted(**stated, rollout_memory=0.6, rollout_sleep=False)
    assert "--rollout-sleep" in {remedy.flags for remedy in awake.remedies}


def test_the_next_command_repeats_the_objective_but_not_the_usual_one() -> None:
    from chipwise.report.words import asked

    assert asked(fitted(seq=1024).inputs) == "llama-3.2-1b"
    line = asked(fitted(loss="grpo", group_size=4, rollout_sleep=False).inputs)
    assert "--loss grpo" in line and "--group-size 4" in line and "--no-rollout-sleep" in line
