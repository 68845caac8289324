"""Claims of articles about fine-tuning, decided by what chipwise computes.

Bounds are worked by hand: llama-2-7b has 6.74 billion parameters; a card of 24 GB has 24.5 GB at
most for a program; four cards share optimizer states and gradients under ZeRO-2, not the weights.
"""

from __future__ import annotations

from typing import Any

from chipwise.app import estimate_train, fit
from chipwise.app.documents import FitDocument
from chipwise.app.requests import EstimateTrainRequest, FitRequest, parse_request

PARAMS = 6.74e9
SEVEN_B = {"model": "llama-2-7b", "seq": 2048, "recompute": "full"}


def asked(**fields: Any) -> FitDocument:
    document = fit(parse_request(FitRequest, {**SEVEN_B, **fields}))
    assert isinstance(document, FitDocument)
    return document


def test_weights_and_gradients_of_7b_are_more_than_24_gb() -> None:
    # 2 + 2 bytes each: 27.0 GB
    document = asked(on="rtx-4090", grad_dtype="bf16", framework="finetune", micro_batch=1)
    lines = {part.name: part.bytes for part in document.memory.parts}
    held = lines["weights"] + lines["gradients"]
    assert 0.99 * 4 * PARAMS < held < 1.01 * 4 * PARAMS
    assert held > document.memory.usable_bytes
    assert document.verdict == "does not fit"


def test_zero2_on_four_24_gb_cards_does_not_hold_7b() -> None:
    # 2 + (2 + 12)/4 bytes each are 37 GB before any activation
    document = asked(on="rtx-4090:4", shard="zero2", micro_batch=2)
    assert document.verdict == "does not fit"
    assert document.memory.total_bytes > (2 + 12 / 4) * PARAMS
    remedies = {one.flags: one for one in document.remedies}
    assert remedies["--method lora"].fits_after


def test_1420_tokens_a_second_are_possible_with_the_optimizer_on_the_host() -> None:
    cards = {"on": "rtx-4090:4", "shard": "zero2", "micro_batch": 2, "framework": "deepspeed"}
    fields = {**SEVEN_B, **cards, "offload": "optimizer", "host_memory": "256GiB"}
    speed = estimate_train(parse_request(EstimateTrainRequest, fields)).tokens_per_s
    # 6 FLOP for each parameter and token: 1,420 tokens/s are 9 % of four cards' 660 TFLOP/s
    assert speed.low <= 1420 <= speed.high


def test_mixed_precision_adamw_of_7b_is_more_than_80_gb() -> None:
    # 2 + 2 + 12 bytes each: 108 GB
    mixed = {"master_weights": True, "grad_dtype": "bf16", "framework": "finetune"}
    document = asked(on="a100-sxm-80", micro_batch=1, **mixed)
    assert document.verdict == "does not fit"
    assert document.memory.total_bytes > 16 * PARAMS
    # two bytes of everything, eight in all, leave room
    assert asked(on="a100-sxm-80", micro_batch=1, framework="finetune",
                 optimizer="adamw-bf16").verdict == "fits"  # fmt: skip
