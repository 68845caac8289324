"""``explain``: the calculation itself as a tree, with the sources of its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chipwise.app import estimate_train, explain
from chipwise.app.documents_facts import ExplainDocument, Explained, QuantitiesDocument
from chipwise.app.requests import EstimateTrainRequest, ExplainRequest
from chipwise.errors import UnknownNameError, UsageError


def asked(quantity: str, **fields: Any) -> ExplainDocument:
    values = {"quantity": quantity, "model": "llama-2-7b", "on": "h100-sxm:8", **fields}
    document = explain(ExplainRequest.model_validate(values))
    assert isinstance(document, ExplainDocument)
    return document


def leaves(tree: Explained) -> Iterator[Explained]:
    if not tree.needs:
        yield tree
    for need in tree.needs:
        yield from leaves(need)


def test_the_explanation_is_the_estimate() -> None:
    values = {"model": "llama-2-7b", "on": "h100-sxm:8"}
    estimate = estimate_train(EstimateTrainRequest.model_validate(values))
    assert asked("step_time").value == estimate.step_time_s.likely
    assert asked("allocated_bytes").value == estimate.memory.total_bytes
    assert asked("mfu").value == estimate.mfu.likely


def test_the_parts_of_a_sum_add_up() -> None:
    tree = asked("step_time", depth=1)
    assert sum(need.value for need in tree.needs) == pytest.approx(tree.value)


def test_hardware_inputs_carry_the_source_of_the_catalogue() -> None:
    found = {leaf.quantity: leaf for leaf in leaves(asked("step_time", depth=20))}
    assert found["peak_matmul"].source == "nvidia-h100-datasheet"
    assert found["peak_matmul"].basis == "datasheet"
    assert found["peak_bandwidth"].source == "nvidia-h100-datasheet"
    assert found["hidden"].meaning == "model width"


def test_constants_say_what_they_rest_on() -> None:
    found = {leaf.quantity: leaf for leaf in leaves(asked("step_time", depth=20))}
    assert found["matmul_derate"].basis in ("calibrated", "assumed", "datasheet")
    assert found["matmul_derate"].meaning


def test_memory_is_explained_at_the_fullest_stage() -> None:
    tree = asked("needed_bytes", tp=1, pp=4, framework="megatron-core", depth=20)
    values = {"tp": 1, "pp": 4, "framework": "megatron-core"}
    request = {"model": "llama-2-7b", "on": "h100-sxm:8", **values}
    estimate = estimate_train(EstimateTrainRequest.model_validate(request))
    total = next(need for need in tree.needs if need.quantity == "allocated_bytes")
    assert total.value == estimate.memory.total_bytes


def test_a_measured_value_is_shown_as_measured() -> None:
    tree = asked("step_time", set="layer_time=3 ms", depth=20)
    found = {leaf.quantity: leaf for leaf in leaves(tree)}
    assert found["layer_time"].value == pytest.approx(3e-3)
    assert (found["layer_time"].basis, found["layer_time"].source) == ("measured", "--set")


@pytest.mark.parametrize("name", ["duration", "memory_share", "half_size", "hidden", "bandwidth"])
def test_anything_with_a_name_can_be_asked(name: str) -> None:
    assert asked(name, tokens="2B").quantity == name


def test_a_duration_without_a_length_is_an_error() -> None:
    with pytest.raises(UsageError, match="--tokens"):
        asked("duration")
    assert asked("duration", set="tokens=2B").value > 0
    assert asked("checkpoint_bytes").value > 0  # the size of one has nothing to do with it


def test_the_duration_of_a_run_is_explained_by_its_parts_and_what_was_assumed() -> None:
    tree = asked("duration", tokens="2B", on="tpu-v5p:16", checkpoint_every=500, depth=20)
    assert sum(need.value for need in tree.needs) == pytest.approx(tree.value)
    basis = {leaf.quantity: leaf.basis for leaf in leaves(tree)}
    assert basis["compile_time"] == basis["storage_bandwidth"] == "assumed"
    assert basis["tokens"] == "stated"
    stated = asked("duration", tokens="2B", checkpoint_every=500, storage_bandwidth="5GB/s",
                   depth=20)  # fmt: skip
    found = {leaf.quantity: leaf for leaf in leaves(stated)}["storage_bandwidth"]
    assert (found.value, found.basis) == (5e9, "stated")


def test_a_key_of_a_document_is_understood() -> None:
    assert asked("step_time_s").quantity == "step_time"


def test_a_peak_is_worked_out_from_the_parts_of_the_chip() -> None:
    # 132 SMs · 4096 operations · 1.83 GHz = 989.4 TFLOP/s
    tree = asked("peak_flops", model=None)
    assert tree.value == pytest.approx(989.4e12, rel=1e-3)
    assert {part.quantity for part in tree.needs[0].needs} >= {"units", "clock"}
    eight_bit = asked("peak_flops", model=None, precision="fp8")
    assert eight_bit.value == pytest.approx(2 * tree.value, rel=1e-3)


def test_a_quantity_of_a_job_needs_a_model() -> None:
    with pytest.raises(UsageError, match="MODEL"):
        asked("step_time", model=None)


def test_a_wrong_name_gets_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="step_time"):
        asked("steptime")


def test_the_list_has_every_quantity_input_and_constant_once() -> None:
    document = explain(ExplainRequest(list=True))
    assert isinstance(document, QuantitiesDocument)
    names = [entry.name for entry in document.quantities]
    assert {"step_time", "needed_bytes", "hidden", "half_size", "peak_flops"} <= set(names)
    assert len(set(names)) == len(names)
