"""The tensor ledger: every matrix, norm and bias, worked by hand."""

from __future__ import annotations

from chipwise.spec.model import AttentionSpec, FeedForwardSpec, LayerGroup, ModelSpec
from chipwise.spec.tensors import (
    PARTS,
    params_active,
    params_by_part,
    params_total,
    tensors,
)

GQA = AttentionSpec(kind="gqa", heads=4, kv_heads=2, head_dim=16)
DENSE = FeedForwardSpec(hidden=160)


def spec(group: LayerGroup, **changes: object) -> ModelSpec:
    values = {
        "id": "m",
        "family": "t",
        "hidden": 64,
        "vocab": 1000,
        "layers": (group,),
        "final_norm_params": 64,
    }
    return ModelSpec.model_validate(values | changes)


def layer(**changes: object) -> LayerGroup:
    values = {"count": 3, "attention": GQA, "feed_forward": DENSE, "norm_params": 128}
    return LayerGroup.model_validate(values | changes)


def test_total_of_a_small_gated_decoder_is_the_hand_count() -> None:
    # Per layer: q 64·64, k and v 64·32 each, o 64·64 → 12288; ffn 3·64·160 = 30720; norms 128.
    # Model: 3·(12288 + 30720 + 128) + embedding 64000 + head 64000 + final norm 64.
    assert params_total(spec(layer())) == 3 * 43136 + 128064


def test_llama_2_7b_is_the_published_count() -> None:
    # meta-llama/Llama-2-7b: 6,738,415,616 parameters in its checkpoint.
    attention = AttentionSpec(kind="mha", heads=32, kv_heads=32, head_dim=128)
    group = LayerGroup(
        count=32,
        attention=attention,
        feed_forward=FeedForwardSpec(hidden=11008),
        norm_params=2 * 4096,
    )
    model = ModelSpec(
        id="m",
        family="llama",
        hidden=4096,
        vocab=32000,
        layers=(group,),
        final_norm_params=4096,
    )
    assert params_total(model) == 6_738_415_616


def test_tied_embeddings_have_no_head() -> None:
    tied = spec(layer(), tied_embeddings=True)
    assert params_by_part(tied)["head"] == 0
    assert params_total(spec(layer())) - params_total(tied) == 64 * 1000


def test_biases_count_one_per_output() -> None:
    # q 64, k 32, v 32, o 64; ffn gate 160, up 160, down 64; head 1000.
    biased = GQA.model_copy(update={"q_bias": True, "kv_bias": True, "output_bias": True})
    group = layer(attention=biased, feed_forward=DENSE.model_copy(update={"bias": True}))
    more = params_total(spec(group, head_bias=True)) - params_total(spec(layer()))
    assert more == 3 * (192 + 384) + 1000


def test_two_matrices_without_a_gate() -> None:
    plain = layer(feed_forward=FeedForwardSpec(hidden=160, gated=False))
    assert params_by_part(spec(plain))["dense_ffn"] == 3 * 2 * 64 * 160


def test_latent_attention_goes_through_its_ranks() -> None:
    mla = AttentionSpec(
        kind="mla",
        heads=4,
        kv_heads=4,
        head_dim=8,
        value_head_dim=6,
        q_lora_rank=24,
        kv_lora_rank=16,
        qk_rope_dim=4,
        qk_norm_params=40,
    )
    # q_a 64·24, q_b 24·4·12, kv_a 64·(16+4), kv_b 16·4·(8+6), o 4·6·64; norms 24 + 16.
    by_hand = 64 * 24 + 24 * 48 + 64 * 20 + 16 * 56 + 24 * 64
    parts = params_by_part(spec(layer(attention=mla)))
    assert parts["attention"] == 3 * by_hand
    assert parts["norm"] == 3 * (128 + 40) + 64


def test_latent_attention_without_query_rank_has_one_query_matrix() -> None:
    mla = AttentionSpec(kind="mla", heads=4, kv_heads=4, head_dim=8, kv_lora_rank=16, qk_rope_dim=4)
    by_hand = 64 * 48 + 64 * 20 + 16 * 64 + 32 * 64
    assert params_by_part(spec(layer(attention=mla)))["attention"] == 3 * by_hand


def test_output_gate_doubles_the_query_projection() -> None:
    gated = layer(attention=GQA.model_copy(update={"output_gate": True}))
    assert params_total(spec(gated)) - params_total(spec(layer())) == 3 * 64 * 64


def test_shared_keys_need_no_value_projection() -> None:
    shared = layer(attention=GQA.model_copy(update={"shared_kv": True}))
    assert params_total(spec(layer())) - params_total(spec(shared)) == 3 * 64 * 32


def test_grouped_low_rank_output() -> None:
    # 2 groups of 32 inputs to rank 5, then 2·5 to 64, instead of 64·64.
    low = layer(attention=GQA.model_copy(update={"o_lora_rank": 5, "o_groups": 2}))
    change = params_total(spec(low)) - params_total(spec(layer()))
    assert change == 3 * (2 * 32 * 5 + 10 * 64 - 64 * 64)


def test_linear_attention_counts_its_stated_weights_only() -> None:
    linear = AttentionSpec(kind="linear", heads=4, kv_heads=4, head_dim=8, extra_params=777)
    assert params_by_part(spec(layer(attention=linear)))["attention"] == 3 * 777


def mixture(**changes: object) -> FeedForwardSpec:
    values = {
        "hidden": 0,
        "num_experts": 8,
        "top_k": 2,
        "expert_hidden": 32,
        "shared_expert_hidden": 48,
    }
    return FeedForwardSpec.model_validate(values | changes)


def test_mixture_of_experts_by_part() -> None:
    routed = mixture(router_bias=True, shared_expert_gate=True)
    parts = params_by_part(spec(layer(feed_forward=routed)))
    assert parts["expert"] == 3 * 8 * 3 * 64 * 32
    assert parts["shared_expert"] == 3 * (3 * 64 * 48 + 64)
    assert parts["router"] == 3 * (8 * 64 + 8)
    assert parts["dense_ffn"] == 0


def test_a_token_uses_top_k_experts_and_everything_else() -> None:
    model = spec(layer(feed_forward=mixture()))
    unused = 3 * 6 * 3 * 64 * 32
    assert params_active(model) == params_total(model) - unused


def test_latent_experts_work_in_the_latent_width() -> None:
    # Down and up projections 64·16 each; experts 3·16·32 instead of 3·64·32.
    latent = params_by_part(spec(layer(feed_forward=mixture(latent_hidden=16))))
    assert latent["expert"] == 3 * 8 * 3 * 16 * 32
    assert latent["other"] == 3 * 2 * 64 * 16


def test_dense_models_use_all_their_parameters() -> None:
    assert params_active(spec(layer())) == params_total(spec(layer()))


def test_active_without_embedding_keeps_a_tied_table() -> None:
    untied = spec(layer(), position_params=640)
    assert params_total(untied) - params_active(untied, embedding=False) == 64000 + 640
    tied = spec(layer(), tied_embeddings=True, position_params=640)
    assert params_total(tied) - params_active(tied, embedding=False) == 640


def test_parts_and_tensors_sum_to_the_total() -> None:
    model = spec(layer(feed_forward=mixture(), extra_params=5), extra_params=9, position_params=64)
    parts = params_by_part(model)
    assert set(parts) == set(PARTS)
    assert sum(parts.values()) == params_total(model) == sum(t.params for t in tensors(model))


def test_layers_without_one_of_the_blocks() -> None:
    only_attention = layer(feed_forward=None, norm_params=64)
    assert params_by_part(spec(only_attention))["dense_ffn"] == 0
    only_ffn = layer(attention=None, norm_params=64)
    assert params_by_part(spec(only_ffn))["attention"] == 0


def test_empty_tensors_are_left_out() -> None:
    assert all(tensor.params > 0 for tensor in tensors(spec(layer())))
