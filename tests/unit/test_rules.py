"""Each rule names itself, the value and the nearest valid ones."""

from __future__ import annotations

import pytest

from chipwise import rules
from chipwise.catalogue.models import load_model
from chipwise.catalogue.names import parse_system
from chipwise.errors import LayoutError
from chipwise.spec import tuning_rules
from chipwise.spec.job import Strategy, TrainingJob, TrainingWorkload

LLAMA = load_model("llama-2-7b")  # 32 heads, 32 layers, width 4096
MIXTRAL = load_model("mixtral-8x7b")  # 8 experts
EIGHT = parse_system("h100-sxm:8")[0]


def broken(error: pytest.ExceptionInfo[LayoutError]) -> tuple[str, object, object]:
    details = error.value.details
    return error.value.code, details["value"], details["nearest"]


def test_tp_gives_every_device_whole_heads() -> None:
    rules.tp_divides_heads(LLAMA, 8)
    with pytest.raises(LayoutError) as error:
        rules.tp_divides_heads(LLAMA, 7)
    assert broken(error) == ("tp-divides-heads", 7, [4, 8])


def test_degrees_fill_the_cluster_and_the_missing_dp_is_said() -> None:
    rules.degrees_fill_cluster(EIGHT, 2, 2, 2, 1)
    with pytest.raises(LayoutError) as error:
        rules.degrees_fill_cluster(EIGHT, 2, 2, 1, 1)
    assert broken(error) == ("degrees-fill-cluster", 1, [2])


def test_degrees_that_do_not_divide_the_cluster_name_the_nearest_products() -> None:
    with pytest.raises(LayoutError) as error:
        rules.degrees_fill_cluster(EIGHT, 3, 1, 1, 1)
    assert broken(error) == ("degrees-fill-cluster", 3, [2, 4])


def test_every_stage_has_a_layer() -> None:
    rules.stages_have_layers(LLAMA, 32, 1)
    with pytest.raises(LayoutError) as error:
        rules.stages_have_layers(LLAMA, 64, 1)
    assert broken(error) == ("pp-within-layers", 64, [32])


def test_interleaved_chunks_are_equally_large() -> None:
    rules.stages_have_layers(LLAMA, 4, 2)
    with pytest.raises(LayoutError) as error:
        rules.stages_have_layers(LLAMA, 4, 3)
    assert broken(error) == ("chunks-divide-layers", 3, [2, 4])
    with pytest.raises(LayoutError, match="needs a pipeline"):
        rules.stages_have_layers(LLAMA, 1, 2)


def test_cp_cuts_the_sequence_evenly() -> None:
    rules.cp_divides_sequence(4096, 8)
    with pytest.raises(LayoutError) as error:
        rules.cp_divides_sequence(4096, 3)
    assert broken(error) == ("cp-divides-sequence", 3, [2, 4])


def test_ep_divides_the_experts_and_the_devices_of_a_stage() -> None:
    rules.experts_divide(MIXTRAL, 4, 8)
    with pytest.raises(LayoutError) as error:
        rules.experts_divide(MIXTRAL, 3, 8)
    assert broken(error) == ("ep-divides-experts", 3, [2, 4])
    with pytest.raises(LayoutError) as error:
        rules.experts_divide(MIXTRAL, 8, 4)
    assert broken(error) == ("ep-divides-ranks", 8, [4])
    with pytest.raises(LayoutError, match="no experts"):
        rules.experts_divide(LLAMA, 2, 8)


def test_all_ranks_run_the_same_whole_number_of_micro_batches() -> None:
    rules.batch_divides(64, 8, 4)
    with pytest.raises(LayoutError) as error:
        rules.batch_divides(20, 8, 1)
    assert broken(error) == ("batch-divides", 20, [16, 24])


def test_the_smallest_batch_that_ranks_can_share_is_a_multiple() -> None:
    assert rules.smallest_batch(8, 2) == 16
    assert rules.smallest_batch(8, 2, 17) == 32


def test_a_rank_wider_than_the_model_is_refused() -> None:
    with pytest.raises(LayoutError, match="4096"):
        tuning_rules.rank_within_width(5000, LLAMA.hidden)


@pytest.mark.parametrize(
    ("method", "base", "use"),
    [("full", "nf4", "lora"), ("qlora", "bf16", "lora"), ("lora", "int4", "qlora")],
)
def test_a_base_format_that_contradicts_the_method_names_the_right_method(
    method: str, base: str, use: str
) -> None:
    workload = TrainingWorkload.model_validate({"method": method, "base_dtype": base})
    with pytest.raises(LayoutError, match=f"--method {use}"):
        tuning_rules.method_suits_base(workload)


def test_tp_beyond_the_fast_link_is_allowed_with_a_warning() -> None:
    two_nodes = parse_system("h100-sxm:8x2")[0]
    strategy = Strategy(tp=16, pp=1, dp=1)
    workload = TrainingWorkload(seq_len=4096)
    job = TrainingJob(model=LLAMA, cluster=two_nodes, workload=workload, strategy=strategy)
    rules.check_layout(job, strategy)
    assert len(list(rules.layout_warnings(two_nodes, strategy))) == 1
    assert not list(rules.layout_warnings(two_nodes, Strategy(tp=8)))


def test_divisors_are_complete_and_rise() -> None:
    assert rules.divisors(12) == [1, 2, 3, 4, 6, 12]
    assert rules.divisors(1) == [1]


def test_only_degrees_that_the_devices_allow_are_offered() -> None:
    with pytest.raises(LayoutError) as error:
        rules.tp_divides_heads(LLAMA, 64, 8)
    assert broken(error) == ("tp-divides-heads", 64, [8])
    with pytest.raises(LayoutError) as error:
        rules.stages_have_layers(LLAMA, 64, 1, 48)
    assert broken(error) == ("pp-within-layers", 64, [24])


def test_recompute_by_layers_is_full_recompute_within_the_model() -> None:
    rules.recompute_every_layers(Strategy(recompute="full", recompute_every=32), LLAMA)
    with pytest.raises(LayoutError, match="recompute is none; use '--recompute full'"):
        rules.recompute_every_layers(Strategy(recompute="none", recompute_every=2), LLAMA)
    with pytest.raises(LayoutError) as error:
        rules.recompute_every_layers(Strategy(recompute="full", recompute_every=33), LLAMA)
    assert broken(error) == ("every-within-layers", 33, [32])


def test_a_sequence_beyond_the_published_context_is_said() -> None:
    assert not list(rules.model_warnings(LLAMA, 4096))
    (text,) = rules.model_warnings(LLAMA, 8192)
    assert "8192" in text and "4096" in text


def test_a_checkpoint_that_holds_another_model_is_said() -> None:
    same = LLAMA.model_copy(update={"stated_params": 6_738_415_616})
    assert not list(rules.model_warnings(same, 4096))
    other = LLAMA.model_copy(update={"stated_params": 16_777_216})
    (text,) = rules.model_warnings(other, 4096)
    assert "16,777,216" in text and "6,738,415,616" in text
