"""Catalogue models: exact counts, sources, names; models from measurement rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chipwise.catalogue.load import DATA, read_toml, use_catalogue
from chipwise.catalogue.models import (
    load_model,
    model_facts,
    model_from_row,
    model_ids,
    model_provenance,
)
from chipwise.errors import DataFileError, UnknownNameError, UsageError
from chipwise.spec.tensors import params_active, params_total

EXACT = [name for name in model_ids() if "exact_params" in model_facts(name)]
ACTIVE = [name for name in model_ids() if "published_active_params" in model_facts(name)]

ANNOUNCED_ONLY = {"grok-1": "86e9 was announced; two of eight experts and the rest are 83.8e9"}
"""Active counts that no convention gives from the published sizes."""


@pytest.fixture
def own_folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "models").mkdir()
    use_catalogue(tmp_path)
    yield tmp_path / "models"
    use_catalogue(None)


def test_most_of_the_catalogue_has_an_exact_count() -> None:
    assert len(EXACT) >= 140


@pytest.mark.parametrize("name", EXACT)
def test_total_parameters_are_exact(name: str) -> None:
    assert params_total(load_model(name)) == model_facts(name)["exact_params"]


@pytest.mark.parametrize("name", sorted(set(model_ids()) - set(EXACT)))
def test_models_without_an_exact_count_are_near_the_published_one(name: str) -> None:
    published = model_facts(name)["published_params"]
    assert params_total(load_model(name)) == pytest.approx(published, rel=0.006)


def printed_alike(published: int, value: float) -> bool:
    """Equal to the digits that were printed (whole or tenths of 1e9), rounded or cut off."""
    step = 10**9 if published % 10**9 == 0 else 10**8
    return published in (round(value / step) * step, value // step * step)


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters_are_the_published_ones_to_the_printed_precision(name: str) -> None:
    model, published = load_model(name), model_facts(name)["published_active_params"]
    counts = (params_active(model), params_active(model, embedding=False))
    assert any(printed_alike(published, count) for count in counts) == (
        name not in ANNOUNCED_ONLY
    ), counts


@pytest.mark.parametrize("name", model_ids())
def test_every_value_of_a_model_has_a_source_that_exists(name: str) -> None:
    document = read_toml(DATA / "models" / f"{name}.toml")
    described = document.get("config") or document["row"]
    table = "config" if "config" in document else "row"
    needed = {f"{table}.{field}" for field in described} | set(model_facts(name))
    sources = read_toml(DATA / "sources.toml")
    provenance = model_provenance(name)
    assert set(provenance) == needed
    for given in provenance.values():
        assert {given.source, *given.also} <= set(sources)
        assert given.retrieved


def test_names_ignore_letter_case_and_know_hub_ids() -> None:
    for spelling in ("Llama-2-7B", "meta-llama/Llama-2-7b-hf", " llama-2-7b ", "Llama 2_7B"):
        assert load_model(spelling) is load_model("llama-2-7b")


def test_every_alias_leads_to_a_model() -> None:
    names = read_toml(DATA / "model_names.toml")
    assert set(names["aliases"]) <= set(model_ids())
    unsupported = {name for group in names["unsupported"].values() for name in group}
    assert not unsupported & set(model_ids())
    for name in unsupported:
        with pytest.raises(UsageError, match="cannot be described yet"):
            load_model(name)


def test_an_unknown_name_offers_the_nearest_and_the_listing() -> None:
    with pytest.raises(UnknownNameError, match=r"llama-2-7b.*chipwise catalogue models"):
        load_model("llama-2-7bb")


@pytest.mark.parametrize(
    "name", ["", "../llama-2-7b", "x" * 5000, "a\0b", "~no-such/x", "llama-2-7b.toml"]
)
def test_odd_names_are_unknown_names(name: str) -> None:
    with pytest.raises(UnknownNameError):
        load_model(name)


def test_a_hub_id_without_the_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match=r"chipwise\[hub\]") as caught:
        load_model("somebody/some-model")
    assert caught.value.exit_code == 2


def test_sliding_windows_become_groups_of_layers() -> None:
    # Gemma 3 27B: 62 layers, every sixth full (10 of them), the others with a window of 1024.
    groups = load_model("gemma-3-27b").layers
    assert {(g.attention.window, g.count) for g in groups if g.attention} == {(1024, 52), (0, 10)}


def test_first_dense_layers_are_a_group_of_their_own() -> None:
    # DeepSeek-V3: 3 dense layers, then 58 with 256 experts of which 8 work, and a shared one.
    dense, sparse = load_model("deepseek-v3").layers
    assert (dense.count, sparse.count) == (3, 58)
    assert dense.feed_forward and dense.feed_forward.hidden == 18432
    assert sparse.feed_forward and sparse.feed_forward.num_experts == 256


def test_a_person_can_add_and_replace_models(own_folder: Path) -> None:
    text = (DATA / "models" / "llama-2-7b.toml").read_text(encoding="utf-8")
    changed = text.replace("num_hidden_layers = 32", "num_hidden_layers = 16")
    (own_folder / "llama-2-7b.toml").write_text(changed, encoding="utf-8")
    (own_folder / "mine.toml").write_text(changed, encoding="utf-8")
    use_catalogue(own_folder.parent)
    assert load_model("llama-2-7b").num_layers == 16
    assert "mine" in model_ids()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id = \n", "Invalid value"),
        ("id = 'x'\ncolour = 'red'\n", "unknown key 'colour'"),
        ("id = 'x'\n", "neither a table"),
        ("[config]\nmodel_type = 'llama'\n", "hidden_size"),
        ("[row]\nlayers = 'many'\nhidden = 64\n", "whole number"),
    ],
)
def test_a_broken_model_file_is_named_with_its_reason(
    own_folder: Path, text: str, reason: str
) -> None:
    (own_folder / "broken.toml").write_text(text, encoding="utf-8")
    use_catalogue(own_folder.parent)
    with pytest.raises(DataFileError, match=reason) as caught:
        load_model("broken")
    assert "broken.toml" in caught.value.message


def test_a_source_of_a_model_is_complete(own_folder: Path) -> None:
    (own_folder / "mine.toml").write_text("[[sources]]\nsource = 'x'\n", encoding="utf-8")
    use_catalogue(own_folder.parent)
    with pytest.raises(DataFileError, match="has no 'fields'"):
        model_provenance("mine")


LLAMA = {
    **{"layers": "32", "hidden": "4096", "heads": "32", "kv_heads": "32", "ffn_hidden": "11008"},
    **{"gated_mlp": "1", "vocab": "32000", "tied_embeddings": "0", "attention_type": "mha"},
}


def test_a_full_row_needs_no_assumption_and_gives_the_exact_count() -> None:
    model, assumptions = model_from_row(LLAMA)
    assert params_total(model) == 6_738_415_616
    assert assumptions == ()


def test_nothing_but_the_architecture_is_read() -> None:
    extra = {"model": "gpt-4", "value": "1", "id": "x", "source": "y", "notes": "70B"}
    assert model_from_row(LLAMA | extra) == model_from_row(LLAMA)


def test_missing_sizes_are_assumed_and_said() -> None:
    model, assumptions = model_from_row({"layers": "32", "hidden": "4096", "gated_mlp": "1"})
    attention = model.layers[0].attention
    # 8/3 · 4096 = 10922.7, rounded up to a multiple of 256.
    assert attention and (attention.heads, attention.kv_heads) == (32, 32)
    assert model.layers[0].feed_forward and model.layers[0].feed_forward.hidden == 11008
    assert model.vocab == 32000
    said = " ".join(assumptions)
    assert all(name in said for name in ("heads", "kv_heads", "ffn_hidden", "vocab"))


def test_missing_vocabulary_is_derived_from_the_stated_count() -> None:
    row = LLAMA | {"vocab": "", "params_total": "6738415616"}
    model, assumptions = model_from_row(row)
    assert model.vocab == 32000
    assert any("derived" in sentence for sentence in assumptions)


def test_missing_feed_forward_width_is_derived_from_the_stated_count() -> None:
    model, _ = model_from_row(LLAMA | {"ffn_hidden": "", "params_total": "6738415616"})
    assert model.layers[0].feed_forward and model.layers[0].feed_forward.hidden == 11008


def test_learned_positions_explain_what_is_left_of_a_gpt_count() -> None:
    # GPT-2: 124,439,808 parameters, 1,024 learned positions.
    row = {
        **{"layers": "12", "hidden": "768", "heads": "12", "kv_heads": "12", "vocab": "50257"},
        **{"ffn_hidden": "3072", "gated_mlp": "0", "tied_embeddings": "1"},
        **{"params_total": "124439808"},
    }
    model, _ = model_from_row(row)
    assert model.position_params == 1024 * 768
    assert params_total(model) == 124_439_808


def test_unstated_tying_is_the_one_nearest_to_the_count() -> None:
    tied, _ = model_from_row(LLAMA | {"tied_embeddings": "", "params_total": "6607343616"})
    untied, _ = model_from_row(LLAMA | {"tied_embeddings": "", "params_total": "6738415616"})
    assert tied.tied_embeddings and not untied.tied_embeddings


def test_latent_rows_become_deepseek_v3_within_a_thousandth() -> None:
    row = {
        **{"layers": "61", "hidden": "7168", "heads": "128", "kv_heads": "128"},
        **{"head_dim": "128", "ffn_hidden": "2048", "gated_mlp": "1", "vocab": "129280"},
        **{"num_experts": "256", "top_k": "8", "attention_type": "mla", "shared_experts": "1"},
        **{"first_dense_layers": "3", "dense_ffn_hidden": "18432", "tied_embeddings": "0"},
    }
    model, _ = model_from_row(row)
    assert params_total(model) == pytest.approx(671_026_419_200, rel=1e-4)


def test_alternating_dense_layers() -> None:
    # Llama 4 Maverick: every other layer routes to one of 128 experts beside a shared one.
    row = {
        **{"layers": "48", "hidden": "5120", "heads": "40", "kv_heads": "8", "head_dim": "128"},
        **{"ffn_hidden": "8192", "gated_mlp": "1", "vocab": "202048", "num_experts": "128"},
        **{"top_k": "1", "shared_experts": "1", "first_dense_layers": "every2"},
        **{"dense_ffn_hidden": "16384", "tied_embeddings": "0"},
    }
    model, _ = model_from_row(row)
    assert [group.count for group in model.layers] == [24, 24]
    assert params_total(model) == 400_711_848_960


@pytest.mark.parametrize(
    "change",
    [
        {"layers": ""},
        {"hidden": ""},
        {"layers": "-3"},
        {"heads": "many"},
        {"vocab": "nan"},
        {"hidden": "1e30"},
        {"heads": "7", "kv_heads": "3"},
        {"num_experts": "4", "top_k": "9"},
        {"first_dense_layers": "everyx", "num_experts": "4", "top_k": "1"},
    ],
)
def test_impossible_rows_are_refused(change: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        model_from_row(LLAMA | change)
    assert caught.value.exit_code == 2
