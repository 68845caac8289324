"""Trained parameters of published models, worked by hand; tests/torch compares with peft itself."""

from __future__ import annotations

import pytest

from chipwise.catalogue.models import load_model
from chipwise.errors import UsageError
from chipwise.spec.adapters import last_layers, trained_params
from chipwise.spec.job import TrainingWorkload
from chipwise.spec.method import Tuning
from chipwise.spec.modules import module_names, modules
from chipwise.spec.targets import WORDS, adapted
from chipwise.spec.tensors import params_total
from chipwise.spec.trained import trained_shares

LLAMA = load_model("llama-2-7b")
LLAMA3 = load_model("llama-3.2-3b")


def count(model: str, method: str, **fields: object) -> int:
    tuning = Tuning.model_validate(fields.pop("tuning", {}))
    workload = TrainingWorkload.model_validate({"method": method, **fields, "tuning": tuning})
    return trained_params(load_model(model), workload)


@pytest.mark.parametrize(
    ("targets", "each"),
    [
        # width 4096, feed-forward 11008, 32 layers; rank · (in + out) for each matrix
        ("qv", 2 * (4096 + 4096)),
        ("q_proj,v_proj", 2 * (4096 + 4096)),
        ("qkv", 3 * (4096 + 4096)),
        ("attention", 4 * (4096 + 4096)),
        ("mlp", 3 * (4096 + 11008)),
        ("qkv+mlp", 3 * (4096 + 4096) + 3 * (4096 + 11008)),
        ("all-linear", 4 * (4096 + 4096) + 3 * (4096 + 11008)),
        ("down_proj", 4096 + 11008),
    ],
)
def test_lora_on_llama_is_rank_times_inputs_and_outputs(targets: str, each: int) -> None:
    found = count("llama-2-7b", "lora", lora_rank=8, lora_targets=targets)
    assert found == 32 * 8 * each


def test_the_head_is_adapted_where_it_is_asked_for() -> None:
    plain = count("llama-2-7b", "lora", lora_rank=8, lora_targets="all-linear")
    whole = count("llama-2-7b", "lora", lora_rank=8, lora_targets="all-linear+head")
    assert whole - plain == 8 * (4096 + 32000)


@pytest.mark.parametrize(
    ("model", "targets", "each"),
    [
        # Pythia 6.9B: fused 4096 → 3·4096
        ("pythia-6.9b", "query_key_value", 32 * (4096 + 12288)),
        ("pythia-6.9b", "qv", 32 * (4096 + 12288)),
        # Mixtral: 8 experts in a layer; w1 and w3 are one parameter 4096 → 2·14336 of double rank
        ("mixtral-8x7b", "w1,w3", 32 * 8 * 2 * (4096 + 28672)),
        ("mixtral-8x7b", "w2", 32 * 8 * (14336 + 4096)),
        # DeepSeek-V3: latents of 1536 and 512 + 64, 128 heads of 128 + 64 and 128 + 128
        ("deepseek-v3", "q_a_proj", 61 * (7168 + 1536)),
        ("deepseek-v3", "q_b_proj", 61 * (1536 + 128 * 192)),
        ("deepseek-v3", "kv_a_proj_with_mqa", 61 * (7168 + 576)),
        ("deepseek-v3", "kv_b_proj", 61 * (512 + 128 * 256)),
    ],
)
def test_fused_stacked_and_latent_modules_count_with_their_own_sizes(
    model: str, targets: str, each: int
) -> None:
    assert count(model, "lora", lora_rank=4, lora_targets=targets) == 4 * each


def test_dora_adds_a_magnitude_for_each_output_and_vera_two_vectors() -> None:
    fields = {"lora_rank": 8, "lora_targets": "q_proj,up_proj"}
    lora = count("llama-2-7b", "lora", **fields)
    assert count("llama-2-7b", "rslora", **fields) == lora
    assert count("llama-2-7b", "dora", **fields) - lora == 32 * (4096 + 11008)
    assert count("llama-2-7b", "vera", **fields) == 32 * (8 + 4096 + 8 + 11008)


def test_published_counts_of_other_methods_on_llama_3_2_3b() -> None:
    # 28 layers of 3072, keys and values 1024, feed-forward 8192 [peft method comparison]:
    # IA3 28·(1024 + 1024 + 8192), norms (2·28 + 1)·3072
    assert count("llama-3.2-3b", "ia3") == 286_720
    assert count("llama-3.2-3b", "ln-tuning") == 175_104
    # prefix 20 · 28 · 2·1024, prompt 20 · 3072
    assert count("llama-3.2-3b", "prefix") == 20 * 28 * 2048
    assert count("llama-3.2-3b", "prompt") == 20 * 3072


def test_a_bottleneck_has_two_matrices_and_two_biases_twice_a_layer() -> None:
    # 2·32·(2·64·4096 + 64 + 4096)
    assert count("llama-2-7b", "adapter", lora_rank=64) == 64 * (2 * 64 * 4096 + 64 + 4096)


def test_a_stated_count_wins_and_whole_parts_come_on_top() -> None:
    tuning = {"modules_to_save": ("embeddings", "head")}
    found = count("llama-2-7b", "lora", trainable_params=1000, tuning=tuning)
    assert found == 1000 + 2 * 32000 * 4096


def test_adapters_of_the_last_layers_are_counted_there_alone() -> None:
    fields = {"lora_rank": 8, "lora_targets": "q_proj"}
    found = count("llama-2-7b", "lora", **fields, tuning={"train_last": 8})
    assert found == 8 * 8 * (4096 + 4096)
    # DeepSeek-V3: 3 dense layers, then 58 with experts
    assert last_layers(load_model("deepseek-v3"), 60) == (2, 58)


@pytest.mark.parametrize(
    ("model", "targets", "near"),
    [
        ("llama-2-7b", "q_prj", "q_proj"),
        ("phi-3-mini", "gate_proj", "gate_up_proj"),
        ("pythia-6.9b", "qkv_value", "query_key_value"),
        ("gpt2-xl", "q_proj", "c_proj"),
    ],
)
def test_an_unknown_target_names_the_nearest_of_this_model(
    model: str, targets: str, near: str
) -> None:
    with pytest.raises(UsageError, match=near) as error:
        count(model, "lora", lora_targets=targets)
    assert error.value.code == "unknown-target"


def test_half_of_a_stacked_pair_is_refused_with_both_names() -> None:
    with pytest.raises(UsageError, match="'w1' and 'w3'"):
        count("mixtral-8x7b", "lora", lora_targets="q_proj,w1")


def test_dora_does_not_adapt_stacked_experts() -> None:
    with pytest.raises(UsageError, match="--method lora"):
        count("mixtral-8x7b", "dora", lora_targets="w2")


def test_prefixes_need_keys_and_values_in_every_layer() -> None:
    with pytest.raises(UsageError, match="prefix tuning"):
        count("deepseek-v3", "prefix")


@pytest.mark.parametrize("name", ["llama-2-7b", "mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b"])
def test_modules_and_ledger_are_the_same_matrices(name: str) -> None:
    model = load_model(name)
    matrices = sum(m.count * m.experts * m.inputs * m.outputs for m in modules(model))
    assert 0 < params_total(model) - matrices <= 2.02 * model.vocab * model.hidden
    assert len(module_names(model)) == len(set(module_names(model)))
    for word in WORDS:
        assert adapted(model, word), word


def test_only_trained_layers_have_a_share() -> None:
    def shares(method: str, **tuning: object) -> tuple[float, ...]:
        spec = Tuning.model_validate(tuning)
        workload = TrainingWorkload.model_validate({"method": method, "tuning": spec})
        found = trained_shares(LLAMA, workload)
        return (found.outer, found.layers, found.reached)

    assert shares("full") == (1, 1, 1)
    assert shares("full", freeze=("embeddings", "head")) == (0, 1, 1)
    # the head is half of embeddings and head
    assert shares("full", freeze=("embeddings",)) == (0.5, 1, 1)
    assert shares("full", train_last=8) == (0.5, 8 / 32, 8 / 32)
    assert shares("lisa", active_layers=2) == (1, 2 / 32, 1)
    assert shares("lora") == (0, 0, 1)
    assert shares("lora", train_last=8) == (0, 0, 8 / 32)
    assert shares("lora", train_last=8, modules_to_save=("embeddings",)) == (0, 0, 1)
