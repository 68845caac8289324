"""Memory questions asked in public, answered through our own use cases and quantities."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from chipwise.app import fit
from chipwise.app.documents import FitDocument, ServeFitDocument
from chipwise.app.evaluation import Evaluated, evaluate
from chipwise.app.jobs import complete, stated_job
from chipwise.app.requests import FitRequest, parse_request
from chipwise.physics.serving_memory import input_table_bytes, sampling_bytes

GB, GIB = 1e9, 2**30
CASES: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("memory_cases.toml").read_text(encoding="utf-8")
)
Answers = Mapping[str, float]


def serve(model: str, on: str, **stated: object) -> ServeFitDocument:
    values = {"model": model, "on": on, "task": "serve", **stated}
    document = fit(parse_request(FitRequest, values))
    assert isinstance(document, ServeFitDocument)
    return document


def train(model: str, on: str, **stated: object) -> FitDocument:
    document = fit(parse_request(FitRequest, {"model": model, "on": on, **stated}))
    assert isinstance(document, FitDocument)
    return document


def trained(
    model: str, on: str, overrides: Mapping[str, float] | None = None, **stated: object
) -> Evaluated:
    """Every quantity of the fullest device of a training job."""
    request = parse_request(FitRequest, {"model": model, "on": on, **stated})
    one = complete(stated_job(request))
    return evaluate(one.job, one.strategy, overrides)


def states(point: Evaluated) -> float:
    """Weights, gradients and optimizer states on one device. [B]"""
    names = ("weights_resident_bytes", "gradient_bytes", "optimizer_state_bytes")
    return sum(point.memory[name] for name in names)


def fits(document: FitDocument | ServeFitDocument) -> float:
    assert (document.exit_code == 3) == (document.verdict == "does not fit")
    return float(document.verdict in ("fits", "tight"))


def says(document: FitDocument | ServeFitDocument, words: str) -> float:
    return float(any(words in text for text in document.warnings))


def mem_01() -> Answers:
    at = {n: serve("llama-3.1-8b", "rtx-3090", context=n, max_num_batched_tokens=n,
                   gpu_memory_utilization=0.9) for n in (20000, 29000)}  # fmt: skip
    assert says(at[29000], "grows with --max-num-batched-tokens")
    assert at[29000].one_change and "--max-num-batched-tokens" in at[29000].one_change.flags
    return {
        "weights_gib": at[20000].weights_bytes / GIB,
        "kv_bytes_per_token": at[20000].kv_bytes_per_token,
        **{f"room_gib_at_{n}": at[n].kv_room_bytes / GIB for n in at},
        **{f"kv_tokens_at_{n}": at[n].kv_tokens for n in at},
        **{f"fits_at_{n}": fits(at[n]) for n in at},
    }


def mem_03() -> Answers:
    def asked(model: str, on: str) -> ServeFitDocument:
        return serve(model, on, context=131072, concurrency=1)

    small, one, two = (
        asked("llama-3.1-70b", "h100-sxm:4"),
        asked("llama-3.1-405b", "h100-sxm:8"),
        asked("llama-3.1-405b", "h100-sxm:8x2"),
    )
    return {
        "kv_bytes_per_token_70b": small.kv_bytes_per_token,
        "kv_gib_70b": small.kv_bytes_per_token * 131072 / GIB,
        "kv_bytes_per_token_405b": one.kv_bytes_per_token,
        "kv_gib_405b": one.kv_bytes_per_token * 131072 / GIB,
        "weights_gib_70b": small.weights_bytes / GIB,
        "weights_gib_405b": one.weights_bytes / GIB,
        "b70_fits_on_4": fits(small),
        "b405_fits_on_8": fits(one),
        "b405_fits_on_16": fits(two),
    }


def mem_05() -> Answers:
    h800, h20, h200 = (
        serve("deepseek-v3", f"{device}:8", precision="fp8")
        for device in ("h800-sxm", "h20", "h200-sxm")
    )
    return {
        "weights_gb_per_device": h800.device_weights_bytes / GB,
        "fits_on_h800": fits(h800),
        "fits_on_h20": fits(h20),
        "tight_on_h20": float(h20.verdict == "tight"),
        "fits_on_h200": float(h200.verdict == "fits"),
        "says_all_experts_are_resident": says(h20, "parameters are resident"),
    }


def mem_06() -> Answers:
    job: dict[str, Any] = {"model": "llama-7b", "on": "a100-sxm-80", "optimizer": "adamw"}
    held = states(trained(**job)) / GB
    return {
        "states_gb_at_16_bytes": held,
        "states_exceed_84_gb": float(held >= 84),
        "fits": fits(train(**job)),
    }


def mem_07() -> Answers:
    job: dict[str, Any] = {"model": "llama-2-7b", "on": "a100-sxm-80", "precision": "bf16",
                           "master_weights": False, "micro_batch": 1, "seq": 512}  # fmt: skip
    no_copies = {"step_copy_bytes": 0.0}
    single = trained(**job, optimizer="adamw", overrides=no_copies)
    foreach = trained(**job, optimizer="adamw")
    packed = trained(**job, optimizer="adamw-8bit", overrides=no_copies)
    return {
        "peak_gb_without_foreach": single.memory["allocated_bytes"] / GB,
        "extra_gb_of_foreach": foreach.memory["optimizer_step_bytes"] / GB,
        "peak_gb_in_8_bit": packed.memory["allocated_bytes"] / GB,
    }


def mem_10() -> Answers:
    job: dict[str, Any] = {"model": "llama-2-70b", "on": "a100-sxm-80:8", "shard": "zero3",
                           "offload": "optimizer,params", "micro_batch": 1}  # fmt: skip
    rule = train(**job, grad_dtype="bf16").host_bytes or 0.0
    today = train(**job).host_bytes or 0.0
    return {
        "host_gb_at_16_bytes": rule / GB,
        "host_exceeds_1024_gb": float(min(rule, today) > 1024 * GB),
    }


def mem_12() -> Answers:
    job: dict[str, Any] = {"model": "qwen1.5-7b", "on": "a100-sxm-40:8", "shard": "zero2",
                           "precision": "fp16", "seq": 512, "micro_batch": 1}  # fmt: skip
    return {
        "states_gb_2p_14p_over_n": states(trained(**job, grad_dtype="fp16")) / GB,
        "states_gb_2p_18p_over_n": states(trained(**job)) / GB,
        "comfortable": float(train(**job).verdict == "fits"),
    }


def mem_15() -> Answers:
    whole = serve("llama-2-70b", "rtx-a6000:8", weights_dtype="bf16")
    job = train("llama-2-70b", "rtx-a6000:8", shard="fsdp", method="lora", micro_batch=1)
    return {
        "full_state_gb_in_bf16": whole.weights_bytes / GB,
        "training_fits": fits(job),
        "full_state_fits_one_device": float(whole.weights_bytes < job.memory.usable_bytes),
    }


def mem_17() -> Answers:
    job: dict[str, Any] = {"model": "llama-2-7b", "on": "v100-sxm2-16:8", "shard": "fsdp",
                           "framework": "fsdp", "precision": "fp16", "optimizer": "adamw",
                           "micro_batch": 1, "seq": 512}  # fmt: skip
    before = trained(**job, overrides={"step_copy_bytes": 0.0})
    return {
        "states_gb_per_device": states(trained(**job)) / GB,
        "allocated_gib_before_the_step_copies": before.memory["allocated_bytes"] / GIB,
        "fits": fits(train(**job)),
    }


def mem_19() -> Answers:
    packed = serve("llama-2-70b", "rtx-3090:2", weights_dtype="nf4-dq")
    stated = {"shard": "fsdp", "method": "qlora", "offload": "params,optimizer",
              "micro_batch": 1, "seq": 512}  # fmt: skip
    job = train("llama-2-70b", "rtx-3090:2", **stated)
    host = job.host_bytes or 0.0
    small, large = (
        train("llama-2-70b", "rtx-3090:2", **stated, host_memory=size)
        for size in ("125GB", "250GB")
    )
    return {
        "nf4_weights_gb": packed.weights_bytes / GB,
        "device_gb": job.memory.reserved_bytes / GB,
        "host_exceeds_125_gb": float(host > 125 * GB),
        "host_exceeds_250_gb": float(host > 250 * GB),
        "fits_with_125_gb": fits(small),
        "fits_with_250_gb": fits(large),
        "names_the_exit_code": says(small, "exit code -9"),
    }


def mem_21() -> Answers:
    asked = serve("gemma-7b", "tpu-v5e", precision="bf16", gpu_memory_utilization=1.0)
    return {
        "usable_gib": asked.memory.usable_bytes / GIB,
        "weights_gib": asked.weights_bytes / GIB,
        "fits": fits(asked),
    }


def mem_23() -> Answers:
    def tokens(gib: float, **stated: object) -> int:
        room = {"kv_room_bytes": f"{gib} GiB"}
        return serve("qwen3-235b-a22b", "h100-sxm:4", precision="fp8", tp=4,
                     set=room, **stated).kv_tokens  # fmt: skip

    asked = serve("qwen3-235b-a22b", "h100-sxm:4", precision="fp8", tp=4)
    return {
        "kv_bytes_per_token": asked.kv_bytes_per_token,
        "kv_tokens_of_8_11_gib": tokens(8.11),
        "kv_tokens_of_16_46_gib": tokens(16.46, engine="sglang", gpu_memory_utilization=0.93),
    }


def mem_24() -> Answers:
    asked = serve("command-r-plus-104b", "rtx-3090:3", engine="llama.cpp",
                  weights_dtype="Q5_K_S", context=512, headroom=2 / 24)  # fmt: skip
    return {"weights_gib": asked.weights_bytes / GIB, "fits": fits(asked)}


def mem_27() -> Answers:
    return {"logits_gib": float(sampling_bytes(logit_rows=4096, vocab=131072, logit_bytes=2)) / GIB}


def mem_28() -> Answers:
    table = input_table_bytes(32000 * 4096, table_bytes=4.0, head_bytes=4.0, tied_embeddings=0.0)
    job = train("llama-7b", "a100-sxm-80:4", shard="zero3", offload="optimizer,params",
                micro_batch=1, seq=512)  # fmt: skip
    named = {part.name for part in job.memory.parts}
    return {
        "largest_table_gb_in_fp32": float(table) / GB,
        "device_gib_after_init": (job.memory.load_unpartitioned_bytes or 0.0) / GIB,
        "says_more_than_states": float(
            {"communication buffers", "kept activations", "gathered weights"} <= named
            and job.memory.reserved_bytes > job.memory.total_bytes
        ),
    }


ANSWER: Mapping[str, Callable[[], Answers]] = {
    "mem-01": mem_01,
    "mem-03": mem_03,
    "mem-05": mem_05,
    "mem-06": mem_06,
    "mem-07": mem_07,
    "mem-10": mem_10,
    "mem-12": mem_12,
    "mem-15": mem_15,
    "mem-17": mem_17,
    "mem-19": mem_19,
    "mem-21": mem_21,
    "mem-23": mem_23,
    "mem-24": mem_24,
    "mem-27": mem_27,
    "mem-28": mem_28,
}


@cache
def answers(case: str) -> Answers:
    return ANSWER[case]()


def checks() -> list[Any]:
    return [
        pytest.param(
            case,
            metric,
            id=f"{case}-{metric}",
            marks=[pytest.mark.xfail(reason=check["wrong"])] if "wrong" in check else [],
        )
        for case, about in CASES.items()
        for metric, check in about["checks"].items()
    ]


@pytest.mark.parametrize(("case", "metric"), checks())
def test_the_answer_is_within_what_the_case_allows(case: str, metric: str) -> None:
    check = CASES[case]["checks"][metric]
    assert answers(case)[metric] == pytest.approx(check["value"], rel=check["tolerance"], abs=0)


@pytest.mark.parametrize("case", sorted(CASES))
def test_every_number_we_compute_for_a_case_is_checked(case: str) -> None:
    assert set(answers(case)) == set(CASES[case]["checks"])


def test_every_case_names_a_public_source() -> None:
    assert set(CASES) == set(ANSWER)
    assert all(about["source"].startswith("https://") for about in CASES.values())
