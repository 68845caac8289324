"""Which share of a model's own parameters is trained: all, the last layers, some at a time."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.spec.adapters import last_layers
from chipwise.spec.job import TrainingWorkload
from chipwise.spec.method import LISA_LAYERS, adapts
from chipwise.spec.model import ModelSpec
from chipwise.spec.tensors import Tensor, tensors

_LAYER_PARTS = ("attention", "dense_ffn", "shared_expert", "router", "norm")


@dataclass(frozen=True, slots=True)
class TrainedShares:
    """Trained over all parameters, each from 0 to 1; of layers, those the backward pass enters."""

    dense: float
    """Layers without routed experts, and the final norm."""
    experts: float
    outer: float
    """Embeddings, head and what lies beside the layers."""
    total: float
    layers: float
    """Layers whose weights are trained."""
    reached: float
    """Layers through which gradients flow: all above the lowest trained thing."""


def trained_shares(model: ModelSpec, workload: TrainingWorkload) -> TrainedShares:
    """The shares of one workload; all 0 but ``reached`` where the base is frozen.

    Notes:
        LISA trains the embeddings, the head and a few random layers at a time [lisa2024]; the
        share is the mean over its draws. With ``train_last`` the embeddings are frozen (and so is
        a head tied to them), what follows the layers is trained.
    """
    reached = _reached(model, workload)
    if adapts(workload.method):
        return TrainedShares(0.0, 0.0, 0.0, 0.0, 0.0, reached)
    sums = {"dense": [0.0, 0.0], "experts": [0.0, 0.0], "outer": [0.0, 0.0]}
    for tensor in tensors(model):
        share = _share(model, workload, tensor)
        kind = sums[_kind(tensor)]
        kind[0] += share * tensor.params
        kind[1] += tensor.params
    trained, all_params = (sum(pair[place] for pair in sums.values()) for place in (0, 1))
    parts = {name: pair[0] / pair[1] if pair[1] else 0.0 for name, pair in sums.items()}
    layers = _layer_share(model, workload)
    return TrainedShares(**parts, total=trained / all_params, layers=layers, reached=reached)


def _kind(tensor: Tensor) -> str:
    if tensor.part == "expert":
        return "experts"
    return "dense" if tensor.part in _LAYER_PARTS else "outer"


def _share(model: ModelSpec, workload: TrainingWorkload, tensor: Tensor) -> float:
    """Trained share of one ledger entry."""
    tuning = workload.tuning
    if tensor.name.startswith("layers."):
        if tuning.train_last is None:
            return _layer_share(model, workload)
        group = int(tensor.name.split(".")[1])
        return last_layers(model, tuning.train_last)[group] / model.layers[group].count
    if tensor.part == "norm":
        return 1.0
    frozen = set(tuning.freeze) | ({"embeddings"} if tuning.train_last else set())
    if tensor.part == "head":
        return float("head" not in frozen)
    tied_head = model.tied_embeddings and "head" in frozen
    return float("embeddings" not in frozen and not tied_head)


def _layer_share(model: ModelSpec, workload: TrainingWorkload) -> float:
    tuning, layers = workload.tuning, model.num_layers
    if workload.method == "lisa":
        return min(1.0, (tuning.active_layers or LISA_LAYERS) / layers)
    return min(1.0, (tuning.train_last or layers) / layers)


def _reached(model: ModelSpec, workload: TrainingWorkload) -> float:
    """All layers, unless only the last ones are trained and nothing below them."""
    tuning = workload.tuning
    below = workload.method in ("prompt", "prefix") or "embeddings" in tuning.modules_to_save
    if tuning.train_last is None or below:
        return 1.0
    return min(1.0, tuning.train_last / model.num_layers)
