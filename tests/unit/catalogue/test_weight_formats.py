from __future__ import annotations

import pytest

from chipwise.catalogue.models import load_model
from chipwise.catalogue.sources import sources
from chipwise.catalogue.weight_formats import find_weight_format, weight_formats
from chipwise.errors import UnknownNameError
from chipwise.physics.serving_memory import weights_bytes
from chipwise.physics.serving_model import SERVING
from chipwise.serving_columns import serving_model_columns, weight_columns


def size_of(model: str, stored: str) -> float:
    columns = serving_model_columns(load_model(model)) | weight_columns(find_weight_format(stored))
    return float(SERVING.evaluate(columns, [weights_bytes.__name__])["weights_bytes"])


@pytest.mark.parametrize(
    ("stored", "bits"),
    [
        *(("Q2_K", 3.1593), ("Q3_K_S", 3.6429), ("Q3_K_L", 4.2979), ("IQ4_XS", 4.4597)),
        *(("IQ4_NL", 4.6818), ("Q4_K_S", 4.6672), ("Q4_K_M", 4.8944), ("Q5_K_S", 5.5704)),
        *(("Q5_K_M", 5.7036), ("Q6_K", 6.5633), ("Q8_0", 8.5008), ("F16", 16.0005)),
    ],
)
def test_gguf_bits_are_those_of_the_table_of_llama_cpp(stored: str, bits: float) -> None:
    # ggml-org/llama.cpp, tools/quantize/README.md: Llama-3.1-8B with 8,030,261,248 parameters
    assert size_of("llama-3.1-8b", stored) * 8 / 8030261248 == pytest.approx(bits, rel=5e-4)


@pytest.mark.parametrize(("model", "size"), [("llama-3.1-70b", 43.1), ("llama-3.1-405b", 249.1)])
def test_a_mix_carries_over_to_larger_models(model: str, size: float) -> None:
    # the same page: Q4_K_M files of 43.1 and 249.1 "GB", which its own 8B row shows to be loose
    assert size_of(model, "q4_k_m") / 1e9 == pytest.approx(size, rel=0.03)


def test_groups_of_128_cost_a_scale_and_a_zero_point() -> None:
    assert find_weight_format("awq").layers == 4 + 16 / 128 + 4 / 128


def test_embedding_and_head_stay_16_bit_in_packed_checkpoints() -> None:
    packed = [one for one in weight_formats().values() if one.layers < 16 and not one.gguf]
    assert packed
    assert {(one.table, one.head, one.small) for one in packed} == {(16, 16, 16)}


def test_only_the_experts_of_gpt_oss_are_packed() -> None:
    # openai: the checkpoints are 12.8 GiB and 60.8 GiB
    assert size_of("gpt-oss-20b", "mxfp4") / 2**30 == pytest.approx(12.8, rel=0.01)
    assert size_of("gpt-oss-120b", "mxfp4") / 2**30 == pytest.approx(60.8, rel=0.01)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("Q4_K_M", "q4_k_m"), ("q4km", "q4_k_m"), ("AWQ-int4-g128", "awq"), ("int4", "awq")),
        *(("torch.bfloat16", "bf16"), ("GPTQ-4bit-g128", "gptq"), ("f16", "fp16")),
    ],
)
def test_spellings_are_understood(text: str, name: str) -> None:
    assert find_weight_format(text).name == name


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="q4_k_m"):
        find_weight_format("q4_k_x")


def test_every_format_names_a_known_source() -> None:
    assert {one.source for one in weight_formats().values()} - {"arithmetic"} <= set(sources())
