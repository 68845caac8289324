"""Reading configurations: exact against the public classes, and refusing what is not known."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from chipwise.catalogue.hf.fields import HARMLESS
from chipwise.catalogue.huggingface import (
    LARGEST_FILE,
    READERS,
    left_out,
    model_from_config,
    read_model,
)
from chipwise.errors import DataFileError, UsageError
from chipwise.spec.tensors import params_total

REFERENCE: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "huggingface_reference.json").read_text(encoding="utf-8")
)
"""Small configurations with the parameter count of the class of Transformers 5.24.0 that they
name, built without weights; those called saved are written as that release writes them.
Correction biases of routers are included, other buffers are not."""

LLAMA: dict[str, Any] = REFERENCE["llama"]["config"]


def write(folder: Path, content: object, name: str = "config.json") -> Path:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


@pytest.mark.parametrize("case", REFERENCE)
def test_count_equals_the_public_class(case: str) -> None:
    entry = REFERENCE[case]
    assert params_total(model_from_config(entry["config"], id=case)) == entry["params"]


FORMS: dict[str, tuple[dict[str, Any], int]] = {
    # Worked by hand; h = 64, 3 layers, 4 heads of 16, vocabulary 1000 → embedding 64000.
    # InternLM2: no biases. Layer: q, o 4096 each, k, v 2048 each, 3·64·160, norms 128.
    "internlm2": (
        {
            "model_type": "internlm2",
            "vocab_size": 1000,
            "hidden_size": 64,
            "intermediate_size": 160,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "bias": False,
        },
        3 * (12288 + 30720 + 128) + 128064,
    ),
    # Baichuan: one fused projection 3·64·64, o 64·64.
    "baichuan": (
        {
            "model_type": "baichuan",
            "vocab_size": 1000,
            "hidden_size": 64,
            "intermediate_size": 160,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "model_max_length": 4096,
            "z_loss_weight": 0,
        },
        3 * (16384 + 30720 + 128) + 128064,
    ),
    # ChatGLM: 2 groups, bias on q, k, v (64 + 32 + 32), gated block of 160.
    "chatglm": (
        {
            "model_type": "chatglm",
            "padded_vocab_size": 1000,
            "hidden_size": 64,
            "ffn_hidden_size": 160,
            "num_layers": 3,
            "num_attention_heads": 4,
            "kv_channels": 16,
            "multi_query_attention": True,
            "multi_query_group_num": 2,
            "add_qkv_bias": True,
            "add_bias_linear": False,
            "rmsnorm": True,
            "post_layer_norm": True,
            "seq_length": 8192,
        },
        3 * (12288 + 128 + 30720 + 128) + 128064,
    ),
    # Qwen 1: intermediate_size is twice the width of gate and up; bias on q, k, v.
    "qwen": (
        {
            "model_type": "qwen",
            "vocab_size": 1000,
            "hidden_size": 64,
            "intermediate_size": 320,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "kv_channels": 16,
            "no_bias": True,
            "seq_length": 2048,
        },
        3 * (16384 + 192 + 30720 + 128) + 128064,
    ),
    # Falcon under its first name: one key/value head, one norm with shift, tied.
    "RefinedWebModel": (
        {
            "model_type": "RefinedWebModel",
            "vocab_size": 1000,
            "hidden_size": 64,
            "n_layer": 3,
            "n_head": 4,
            "multi_query": True,
            "parallel_attn": True,
            "bias": False,
            "alibi": False,
        },
        3 * (2 * 4096 + 2 * 1024 + 2 * 64 * 256 + 128) + 64128,
    ),
    # Grok 1: 4 norms, 4 experts with a router, tied.
    "grok-1": (
        {
            "model_type": "grok-1",
            "vocab_size": 1000,
            "hidden_size": 64,
            "intermediate_size": 160,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "num_experts": 4,
            "num_experts_per_tok": 2,
        },
        3 * (12288 + 4 * 30720 + 256 + 256) + 64064,
    ),
}


@pytest.mark.parametrize("case", FORMS)
def test_count_of_formats_without_a_public_class_is_the_hand_count(case: str) -> None:
    config, params = FORMS[case]
    assert params_total(model_from_config(config, id=case)) == params


def test_every_family_is_tested() -> None:
    tested = {entry["config"]["model_type"] for entry in REFERENCE.values()}
    tested |= {str(config["model_type"]) for config, _ in FORMS.values()}
    same_reader = {READERS[kind] for kind in tested}
    by_catalogue = {"mimo", "deepseek"}
    untested = {kind for kind, reader in READERS.items() if reader not in same_reader}
    assert untested <= by_catalogue


def test_deepseek_moe_16b_is_its_published_count() -> None:
    # deepseek-ai/deepseek-moe-16b-base, 16,375,728,128 parameters in its checkpoint.
    config = {
        **{"model_type": "deepseek", "vocab_size": 102400, "hidden_size": 2048},
        **{"intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 28},
        **{"num_attention_heads": 16, "num_key_value_heads": 16, "n_shared_experts": 2},
        **{"n_routed_experts": 64, "num_experts_per_tok": 6, "moe_layer_freq": 1},
        **{"first_k_dense_replace": 1, "norm_topk_prob": False, "scoring_func": "softmax"},
    }
    assert params_total(model_from_config(config, id="m")) == 16_375_728_128


def test_an_unknown_model_type_names_itself_and_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'llamas'.*nearest: llama.*mixtral") as caught:
        model_from_config(LLAMA | {"model_type": "llamas"}, id="m")
    assert caught.value.exit_code == 2


def test_a_missing_model_type_is_said() -> None:
    with pytest.raises(DataFileError, match="model_type"):
        model_from_config({"hidden_size": 64}, id="m")


@pytest.mark.parametrize("value", [3, 2.5, True, [1], {"a": 1}, "wide", False])
def test_a_field_nobody_knows_is_refused_by_name(value: object) -> None:
    with pytest.raises(DataFileError, match="num_memory_slots"):
        model_from_config(LLAMA | {"num_memory_slots": value}, id="m")


def test_null_and_harmless_fields_are_passed_over() -> None:
    extra: dict[str, Any] = dict.fromkeys(sorted(HARMLESS - set(LLAMA) - {"model_type"}), 1)
    extra |= {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "num_memory_slots": None}
    extra |= {"_name_or_path": "x", "unsloth_fixed": True, "vision_start_token_id": 5}
    extra |= {"transformers_version": "4.40.0", "is_encoder_decoder": False}
    plain, full = (model_from_config(c, id="m") for c in (LLAMA, LLAMA | extra))
    assert plain == full


def test_harmless_when_false_is_not_harmless_when_true() -> None:
    with pytest.raises(DataFileError, match="add_cross_attention"):
        model_from_config(LLAMA | {"add_cross_attention": True}, id="m")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", -64),
        ("hidden_size", "64"),
        ("hidden_size", 64.0),
        ("hidden_size", True),
        ("hidden_size", [64]),
        ("hidden_size", float("nan")),
        ("hidden_size", float("inf")),
        ("hidden_size", 10**30),
        ("hidden_size", 0),
        ("num_hidden_layers", 10**8),
        ("num_key_value_heads", 3),
        ("tie_word_embeddings", "yes"),
        ("attention_bias", 2),
        ("vocab_size", None),
    ],
)
def test_impossible_values_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(DataFileError) as caught:
        model_from_config(LLAMA | {field: value}, id="m")
    assert caught.value.exit_code == 2
    assert field in caught.value.message or "not a multiple" in caught.value.message


def test_a_layer_list_of_the_wrong_length_or_kind_is_refused() -> None:
    gemma = REFERENCE["gemma3_text"]["config"]
    for kinds in (["full_attention"], ["sideways_attention"] * 4):
        with pytest.raises(DataFileError, match="layer_types"):
            model_from_config(gemma | {"layer_types": kinds}, id="m")


def test_null_means_no_window_and_absent_means_the_class_default() -> None:
    # MistralConfig: sliding_window = 4096 unless stated.
    mistral = {k: v for k, v in REFERENCE["mistral"]["config"].items() if k != "sliding_window"}
    for config, window in ((mistral, 4096), (mistral | {"sliding_window": None}, 0)):
        attention = model_from_config(config, id="m").layers[0].attention
        assert attention and attention.window == window


def test_absent_query_rank_is_not_guessed() -> None:
    latent = dict(REFERENCE["deepseek_v2"]["config"])
    assert latent.pop("q_lora_rank", 0) is None
    with pytest.raises(DataFileError, match="q_lora_rank"):
        model_from_config(latent, id="m")


def test_a_multimodal_wrapper_gives_its_language_model_and_says_what_is_left_out() -> None:
    wrapper = {
        **{"model_type": "mistral3", "text_config": LLAMA, "image_token_index": 10},
        **{"vision_config": {"hidden_size": 1024}, "num_nextn_predict_layers": 1},
    }
    assert model_from_config(wrapper, id="m") == model_from_config(LLAMA, id="m")
    assert left_out(wrapper) == ("vision tower",)
    assert left_out(LLAMA | {"num_nextn_predict_layers": 1}) == ("multi-token-prediction layers",)


def test_file_and_folder_are_the_same_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    file = write(folder, LLAMA)
    assert read_model(file) == read_model(folder)
    assert read_model(folder).id == "my-model"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[1, 2]", "not a JSON object"),
        ("\ufeffnot json", "cannot be read"),
        ('{"a": ' * 40 + "1" + "}" * 40, "nested too deeply"),
        ("[" * 200_000, "cannot be read|nested too deeply"),
        ('{"hidden_size": 1, "hidden_size": 2}', "'hidden_size' stands there twice"),
    ],
)
def test_unreadable_files_are_named_with_the_reason(
    tmp_path: Path, content: str, reason: str
) -> None:
    file = write(tmp_path, content)
    with pytest.raises(DataFileError, match=reason) as caught:
        read_model(file)
    assert str(file) in caught.value.message


def test_a_pipe_is_no_configuration(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(DataFileError, match="no regular file"):
        read_model(tmp_path)


def test_a_byte_order_mark_does_not_count(tmp_path: Path) -> None:
    assert read_model(write(tmp_path, "\ufeff" + json.dumps(LLAMA))).hidden == LLAMA["hidden_size"]


def test_a_huge_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    file = write(tmp_path, " " * (LARGEST_FILE + 1))
    with pytest.raises(DataFileError, match="larger than"):
        read_model(file)


def test_an_absent_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"config\.json"):
        read_model(tmp_path)


def test_errors_in_a_file_name_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, LLAMA | {"hidden_size": -1})
    with pytest.raises(DataFileError, match="hidden_size") as caught:
        read_model(file)
    assert caught.value.message.startswith(str(file))


def test_the_reference_page_lists_every_family() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "models.md"
    text = page.read_text(encoding="utf-8")
    assert not [kind for kind in READERS if f"`{kind}`" not in text]
