"""Trainable parameters against peft, on real modules of every kind of architecture.

Nothing is trained: the modules lie on the meta device, which has shapes and no memory. The
expected numbers are peft's own, counted over its parameters, so no number is written here.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from chipwise.catalogue.huggingface import model_from_config
from chipwise.errors import UsageError
from chipwise.spec.adapters import ia3_width, targets_of, trained_params
from chipwise.spec.job import TrainingWorkload
from chipwise.spec.method import Tuning
from chipwise.spec.model import ModelSpec
from chipwise.spec.modules import modules
from chipwise.spec.tensors import params_total
from tests.torch.tiny import CONFIGS

RANK = 4
_REFUSED = {"nemotron_h"}
"""Architectures on which peft refuses ``all-linear``: it cannot adapt Mamba's output."""
_LISTS = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma2"), "q_proj,o_proj,up_proj"),
    "phi3": "qkv_proj,gate_up_proj",
    "phi": "q_proj,dense,fc1",
    "starcoder2": "k_proj,c_fc,c_proj",
    "glm4": "q_proj,gate_up_proj,down_proj",
    "gpt_neox": "query_key_value,dense_4h_to_h",
    "gpt2": "attn.c_proj,c_fc",
    "gptj": "k_proj,fc_in,fc_out",
    "gpt_bigcode": "c_attn,mlp.c_proj",
    "opt": "v_proj,out_proj,fc1",
    "bloom": "dense,dense_h_to_4h",
    "falcon": "query_key_value,dense",
    "mpt": "Wqkv,out_proj,down_proj",
    "mixtral": "q_proj,w1,w2,w3",
    "qwen2_moe": "q_proj,shared_expert_gate,down_proj",
    "qwen3_moe": "v_proj,gate,gate_proj,up_proj",
    "gpt_oss": "q_proj,k_proj,o_proj",
    "deepseek_v2": "q_proj,kv_a_proj_with_mqa,kv_b_proj,down_proj",
    "deepseek_v3": "q_a_proj,q_b_proj,kv_b_proj,gate_proj,up_proj,down_proj",
    "qwen3_next": "in_proj_qkvz,in_proj_ba,out_proj,q_proj",
    "nemotron_h": "in_proj,q_proj,up_proj",
}
"""Names of modules, some of them fused, low-rank, recurrent or stacked."""


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def built(name: str) -> Any:
    """The real model on the meta device."""
    from transformers import AutoConfig, AutoModelForCausalLM

    import torch

    fields = dict(CONFIGS[name])
    config = AutoConfig.for_model(fields.pop("model_type"), **fields)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def described(name: str) -> ModelSpec:
    """The same model as chipwise reads it."""
    return model_from_config(CONFIGS[name], id=name)


def by_peft(name: str, config: Any) -> int:
    """Parameters that peft leaves trainable."""
    from peft import get_peft_model

    adapted = get_peft_model(built(name), config)
    return sum(p.numel() for p in adapted.parameters() if p.requires_grad)


def by_us(name: str, method: str, **fields: Any) -> int:
    """Parameters that chipwise says are trained."""
    tuning = Tuning(**fields.pop("tuning", {}))
    workload = TrainingWorkload.model_validate({"method": method, **fields, "tuning": tuning})
    return trained_params(described(name), workload)


def words(name: str, word: str) -> list[str]:
    """The names that a short word stands for on this model, read from its real modules."""
    import torch

    wanted = {
        "qv": ("q_proj", "v_proj", "q_b_proj", "kv_b_proj", "query_key_value", "qkv_proj"),
        "mlp": ("gate_proj", "up_proj", "down_proj", "gate_up_proj", "fc1", "fc2", "c_fc"),
    }
    also = {
        "qv": ("c_attn", "Wqkv"),
        "mlp": ("mlp.c_proj", "dense_h_to_4h", "dense_4h_to_h", "fc_in", "fc_out"),
    }
    from transformers.pytorch_utils import Conv1D

    real = [n for n, m in built(name).named_modules() if isinstance(m, (torch.nn.Linear, Conv1D))]
    known = (*wanted[word], *also[word])
    return [one for one in known if any(path.endswith(f".{one}") for path in real)]


_DENSE = [name for name in CONFIGS if not any(
    field in CONFIGS[name] for field in ("num_experts", "num_local_experts", "n_routed_experts")
)]  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_base_parameters_are_those_of_the_real_modules(name: str) -> None:
    model = built(name)
    buffers = [b for n, b in model.named_buffers() if n.endswith("e_score_correction_bias")]
    expected = sum(p.numel() for p in model.parameters()) + sum(b.numel() for b in buffers)
    assert params_total(described(name)) == expected


@pytest.mark.parametrize("name", CONFIGS)
def test_every_linear_module_is_known_with_its_sizes(name: str) -> None:
    from transformers.pytorch_utils import Conv1D

    import torch

    real: dict[tuple[str, int, int], int] = {}
    for path, module in built(name).named_modules():
        if (
            not isinstance(module, (torch.nn.Linear, Conv1D))
            or "lm_head" in path
            or path == "embed_out"
        ):
            continue
        shape = tuple(module.weight.shape)
        inputs, outputs = shape if isinstance(module, Conv1D) else shape[::-1]
        key = (path.rpartition(".")[2], inputs, outputs)
        real[key] = real.get(key, 0) + 1
    ours: dict[tuple[str, int, int], int] = {}
    for one in modules(described(name)):
        if one.kind == "linear":
            key = (one.leaf, one.inputs, one.outputs)
            ours[key] = ours.get(key, 0) + one.count
    assert ours == real


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in _REFUSED])
def test_lora_on_all_linear_modules(name: str) -> None:
    from peft import LoraConfig

    config = LoraConfig(r=RANK, target_modules="all-linear", task_type="CAUSAL_LM")
    ours = by_us(name, "lora", lora_rank=RANK, lora_targets="all-linear")
    assert ours == by_peft(name, config)


@pytest.mark.parametrize("name", CONFIGS)
def test_lora_on_named_modules(name: str) -> None:
    from peft import LoraConfig

    targets = _LISTS[name].split(",")
    config = LoraConfig(r=RANK, target_modules=targets, task_type="CAUSAL_LM")
    ours = by_us(name, "lora", lora_rank=RANK, lora_targets=_LISTS[name])
    assert ours == by_peft(name, config)


@pytest.mark.parametrize("name", CONFIGS)
def test_lora_on_queries_and_values(name: str) -> None:
    from peft import LoraConfig

    config = LoraConfig(r=RANK, target_modules=words(name, "qv"), task_type="CAUSAL_LM")
    assert by_us(name, "lora", lora_rank=RANK, lora_targets="qv") == by_peft(name, config)


@pytest.mark.parametrize("name", [name for name in _DENSE if name not in _REFUSED])
def test_lora_on_feed_forward_matrices(name: str) -> None:
    from peft import LoraConfig

    config = LoraConfig(r=RANK, target_modules=words(name, "mlp"), task_type="CAUSAL_LM")
    assert by_us(name, "lora", lora_rank=RANK, lora_targets="mlp") == by_peft(name, config)


@pytest.mark.parametrize("method", ["rslora", "dora", "adalora", "vera"])
@pytest.mark.parametrize("name", [name for name in _DENSE if name not in _REFUSED])
def test_relatives_of_lora_on_named_modules(name: str, method: str) -> None:
    from peft import AdaLoraConfig, LoraConfig, VeraConfig

    targets = _LISTS[name].split(",")
    same: dict[str, Any] = {"target_modules": targets, "task_type": "CAUSAL_LM"}
    config = {
        "rslora": lambda: LoraConfig(r=RANK, use_rslora=True, **same),
        "dora": lambda: LoraConfig(r=RANK, use_dora=True, **same),
        "adalora": lambda: AdaLoraConfig(init_r=RANK, target_r=2, total_step=10, **same),
        "vera": lambda: VeraConfig(r=RANK, **same),
    }[method]()
    ours = by_us(name, method, lora_rank=RANK, lora_targets=_LISTS[name])
    assert ours == by_peft(name, config)


@pytest.mark.parametrize("name", CONFIGS)
def test_ia3_on_its_usual_modules(name: str) -> None:
    """Where peft has no usual targets, it is given ours, inputs of feed-forward ends apart."""
    from peft import IA3Config
    from peft.utils.constants import TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING as USUAL

    given: dict[str, Any] = {}
    if CONFIGS[name]["model_type"] not in USUAL:
        workload = TrainingWorkload(method="ia3")
        ours = [one.module for one in targets_of(described(name), workload)]
        ends = {one.leaf for one in ours if ia3_width(one) == one.inputs}
        given = {"target_modules": [one.leaf for one in ours], "feedforward_modules": list(ends)}
    config = IA3Config(task_type="CAUSAL_LM", **given)
    assert by_us(name, "ia3") == by_peft(name, config)


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "gpt2", "bloom"])
def test_tuning_of_norms(name: str) -> None:
    from peft import LNTuningConfig

    assert by_us(name, "ln-tuning") == by_peft(name, LNTuningConfig(task_type="CAUSAL_LM"))


@pytest.mark.parametrize("name", CONFIGS)
def test_prompt_tuning(name: str) -> None:
    from peft import PromptTuningConfig

    config = PromptTuningConfig(num_virtual_tokens=7, task_type="CAUSAL_LM", num_attention_heads=1,
                                num_layers=1)  # fmt: skip
    assert by_us(name, "prompt", tuning={"virtual_tokens": 7}) == by_peft(name, config)


@pytest.mark.parametrize("name", CONFIGS)
def test_prefix_tuning_where_every_layer_has_keys_and_values(name: str) -> None:
    from peft import PrefixTuningConfig

    if name in ("deepseek_v2", "deepseek_v3", "qwen3_next", "nemotron_h"):
        with pytest.raises(UsageError, match="prefix tuning"):
            by_us(name, "prefix")
        return
    heads = {"num_attention_heads": 4} if name == "mpt" else {}
    config = PrefixTuningConfig(num_virtual_tokens=7, task_type="CAUSAL_LM", **heads)
    assert by_us(name, "prefix", tuning={"virtual_tokens": 7}) == by_peft(name, config)


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", "gpt_neox"])
def test_embeddings_and_head_trained_beside_an_adapter(name: str) -> None:
    from peft import LoraConfig

    model = built(name)
    real = {id(m): n for n, m in model.named_modules()}
    parts = {
        "embeddings": real[id(model.get_input_embeddings())].rpartition(".")[2],
        "head": real[id(model.get_output_embeddings())].rpartition(".")[2],
    }
    for part, module in parts.items():
        config = LoraConfig(
            r=RANK,
            target_modules=_LISTS[name].split(","),
            modules_to_save=[module],
            task_type="CAUSAL_LM",
        )
        fields = {"lora_rank": RANK, "lora_targets": _LISTS[name]}
        ours = by_us(name, "lora", **fields, tuning={"modules_to_save": (part,)})
        assert ours == by_peft(name, config)


@pytest.mark.parametrize("name", ["llama", "gemma2", "phi3"])
def test_adapters_in_the_last_layers(name: str) -> None:
    from peft import LoraConfig

    targets = _LISTS[name].split(",")
    config = LoraConfig(
        r=RANK, target_modules=targets, layers_to_transform=[1, 2], task_type="CAUSAL_LM"
    )
    fields = {"lora_rank": RANK, "lora_targets": _LISTS[name], "tuning": {"train_last": 2}}
    assert by_us(name, "lora", **fields) == by_peft(name, config)


@pytest.mark.parametrize(
    ("name", "targets"),
    [("llama", "q_prj"), ("gpt2", "q_proj"), ("phi3", "gate_proj"), ("qwen3_moe", "gate_proj")],
)
def test_what_peft_refuses_is_refused(name: str, targets: str) -> None:
    from peft import LoraConfig

    with pytest.raises(ValueError, match=r"not found|Cannot convert"):
        by_peft(name, LoraConfig(r=RANK, target_modules=[targets], task_type="CAUSAL_LM"))
    with pytest.raises(UsageError):
        by_us(name, "lora", lora_rank=RANK, lora_targets=targets)
