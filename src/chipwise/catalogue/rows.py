"""A model from the architecture cells of a measurement row, with every guess written down.

Measurement tables state sizes, not configurations. The sizes that are there are taken as they
are; the ones that are missing follow the rules below, and each use of a rule is returned as a
sentence. Neither the model's name nor any other cell is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from pydantic import ValidationError

from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.model import AttentionSpec, FeedForwardSpec, LayerGroup, ModelSpec
from chipwise.spec.tensors import params_total

CELLS = (
    *("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "gated_mlp", "vocab"),
    *("num_experts", "top_k", "tied_embeddings", "attention_type", "shared_experts"),
    *("first_dense_layers", "dense_ffn_hidden", "params_total"),
)
"""The columns that describe an architecture; no other cell of a row is read."""

Assumptions = tuple[str, ...]

_DEFAULT_VOCAB = 32000
_DEFAULT_HEAD_DIM = 128
_PLAUSIBLE_VOCAB = range(1000, 1_000_000)
_LONGEST_LEARNED_CONTEXT = 131072
_KV_LORA_RANK, _Q_LORA_RANK, _ROPE_DIM = 512, 1536, 64
_SMALL_MLA_HIDDEN = 2048
_LARGEST_CELL = 10**15


def model_from_row(cells: Mapping[str, str]) -> tuple[ModelSpec, Assumptions]:
    """A generic decoder with the sizes a measurement row states.

    Args:
        cells: column name → text; of them only those of ``CELLS`` are read. Absent and empty
            cells are the same: unknown.

    Returns:
        The model and one sentence for each size that was not stated but assumed or derived.

    Raises:
        UsageError: layers or hidden size are missing, or a cell is no sensible number.
    """
    return _cached(tuple((cells.get(name) or "").strip() for name in CELLS))


@lru_cache(maxsize=4096)
def _cached(values: tuple[str, ...]) -> tuple[ModelSpec, Assumptions]:
    row = _Row(dict(zip(CELLS, values, strict=True)))
    try:
        model = _decoder(row)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(
            "bad-architecture",
            _("the row describes no possible model: {reason}").format(reason=reason),
        ) from None
    return model, tuple(row.assumptions)


class _Row:
    """The cells as numbers, and the assumptions made while reading them."""

    def __init__(self, cells: Mapping[str, str]) -> None:
        self.cells = cells
        self.assumptions: list[str] = []

    def __getitem__(self, name: str) -> int:
        """The cell as a whole number; 0 when it is empty."""
        text = self.cells[name]
        if not text:
            return 0
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= _LARGEST_CELL or value != int(value):
            raise UsageError(
                "bad-cell",
                _("{name} is '{text}', but must be a whole number from 0 on").format(
                    name=name, text=text
                ),
                name=name,
                text=text,
            )
        return int(value)

    def needed(self, name: str) -> int:
        if value := self[name]:
            return value
        raise UsageError(
            "missing-cell",
            _("{name} is not stated, so the model's size is unknown").format(name=name),
            name=name,
        )

    def or_assume(self, name: str, value: int, reason: str) -> int:
        """The cell, or where it is empty or 0 the value given, with the assumption written down."""
        if stated := self[name]:
            return stated
        self.assume(f"{name} = {value}: {reason}")
        return value

    def assume(self, sentence: str) -> None:
        self.assumptions.append(sentence)


def _decoder(row: _Row) -> ModelSpec:
    layers, hidden = row.needed("layers"), row.needed("hidden")
    gated = _gated(row, hidden)
    attention = _attention(row, hidden, bias=not gated)
    stated = row["params_total"]

    def build(vocab: int, ffn: int, tied: bool, positions: int = 0) -> ModelSpec:
        return ModelSpec(
            id="row",
            family="generic",
            hidden=hidden,
            vocab=vocab,
            layers=_groups(row, layers, hidden, attention, gated, ffn),
            tied_embeddings=tied,
            final_norm_params=hidden if gated else 2 * hidden,
            position_params=positions * hidden,
        )

    vocab, ffn = row["vocab"], row["ffn_hidden"]
    tied = _tied(row, gated, lambda tied: build(vocab, ffn, tied), bool(vocab and ffn))
    if not ffn:
        ffn = _missing_ffn(row, hidden, gated, lambda width: build(vocab, width, tied))
    if not vocab:
        vocab = _missing_vocab(row, lambda size: build(size, ffn, tied))
    positions = 0
    if stated and row["vocab"] and row["ffn_hidden"] and not gated:
        positions = _learned_positions(row, stated - params_total(build(vocab, ffn, tied)), hidden)
    model = build(vocab, ffn, tied, positions)
    _compare_with_stated(row, model, stated)
    return model


def _gated(row: _Row, hidden: int) -> bool:
    if row.cells["gated_mlp"]:
        return row["gated_mlp"] > 0
    gated = row["ffn_hidden"] != 4 * hidden
    row.assume(
        _("gated_mlp = {value}: not stated; a block of 4 × hidden has no gate, others do").format(
            value=int(gated)
        )
    )
    return gated


def _attention(row: _Row, hidden: int, *, bias: bool) -> AttentionSpec:
    latent = row.cells["attention_type"].lower() == "mla"
    per_head = row["head_dim"] or _DEFAULT_HEAD_DIM
    heads = row.or_assume("heads", max(1, round(hidden / per_head)), _("hidden size / head width"))
    if latent:
        return _latent_attention(row, hidden, heads)
    kv_heads = row.or_assume("kv_heads", heads, _("not stated, so one per query head"))
    return AttentionSpec(
        kind="mha" if kv_heads == heads else "gqa",
        heads=heads,
        kv_heads=kv_heads,
        head_dim=row["head_dim"] or max(1, hidden // heads),
        q_bias=bias,
        kv_bias=bias,
        output_bias=bias,
    )


def _latent_attention(row: _Row, hidden: int, heads: int) -> AttentionSpec:
    """Multi-head latent attention with the ranks of DeepSeek-V2 [deepseek-v2]."""
    width = row.or_assume("head_dim", _DEFAULT_HEAD_DIM, _("value head of DeepSeek-V2 and V3"))
    q_rank = 0 if hidden <= _SMALL_MLA_HIDDEN else _Q_LORA_RANK
    row.assume(
        _("latent attention: kv rank {kv}, query rank {q}, rotary part {rope}").format(
            kv=_KV_LORA_RANK, q=q_rank, rope=_ROPE_DIM
        )
    )
    return AttentionSpec(
        kind="mla",
        heads=heads,
        kv_heads=heads,
        head_dim=width,
        value_head_dim=width,
        q_lora_rank=q_rank,
        kv_lora_rank=_KV_LORA_RANK,
        qk_rope_dim=_ROPE_DIM,
        qk_norm_params=q_rank + _KV_LORA_RANK,
    )


def _groups(
    row: _Row, layers: int, hidden: int, attention: AttentionSpec, gated: bool, ffn: int
) -> tuple[LayerGroup, ...]:
    norms = 2 * hidden if gated else 4 * hidden

    def group(count: int, feed_forward: FeedForwardSpec) -> LayerGroup:
        return LayerGroup(
            count=count, attention=attention, feed_forward=feed_forward, norm_params=norms
        )

    experts = row["num_experts"]
    if not experts:
        return (group(layers, FeedForwardSpec(hidden=ffn, gated=gated, bias=not gated)),)
    top_k, shared = row["top_k"] or 1, row["shared_experts"]
    sparse = FeedForwardSpec(
        hidden=0,
        gated=gated,
        num_experts=experts,
        top_k=top_k,
        expert_hidden=ffn,
        shared_expert_hidden=shared * ffn,
    )
    num_dense = _num_dense(row, layers)
    if not num_dense:
        return (group(layers, sparse),)
    width = row["dense_ffn_hidden"] or (top_k + shared) * ffn
    dense = FeedForwardSpec(hidden=width, gated=gated, bias=not gated)
    sparse_groups = (group(layers - num_dense, sparse),) if layers > num_dense else ()
    return (group(num_dense, dense), *sparse_groups)


def _num_dense(row: _Row, layers: int) -> int:
    """Layers with a dense block: the leading ones, or every n-th (``every2``)."""
    text = row.cells["first_dense_layers"].lower()
    every = text.removeprefix("every")
    if every != text and every.isdecimal() and 0 < int(every) <= layers:
        return layers // int(every)
    return min(row["first_dense_layers"], layers)


def _tied(row: _Row, gated: bool, build: Callable[[bool], ModelSpec], comparable: bool) -> bool:
    if row.cells["tied_embeddings"]:
        return row["tied_embeddings"] > 0
    if comparable and (stated := row["params_total"]):
        tied = min((True, False), key=lambda tied: abs(params_total(build(tied)) - stated))
        reason = _("closest to the stated parameter count")
    else:
        tied, reason = not gated, _("usual for this kind of block")
    row.assume(f"tied_embeddings = {int(tied)}: {reason}")
    return tied


def _missing_ffn(row: _Row, hidden: int, gated: bool, build: Callable[[int], ModelSpec]) -> int:
    if row["vocab"] and row["params_total"]:
        width = _solve(row["params_total"], lambda size: params_total(build(size)))
        if hidden // 16 <= width <= 16 * hidden:
            row.assume(f"ffn_hidden = {width}: " + _("derived from the stated parameter count"))
            return width
    width = 256 * -(-8 * hidden // (3 * 256)) if gated else 4 * hidden
    rule = _("8/3 × hidden, rounded up to 256") if gated else _("4 × hidden")
    row.assume(f"ffn_hidden = {width}: {rule}")
    return width


def _missing_vocab(row: _Row, build: Callable[[int], ModelSpec]) -> int:
    if row["ffn_hidden"] and row["params_total"]:
        size = _solve(row["params_total"], lambda size: params_total(build(size)))
        if size in _PLAUSIBLE_VOCAB:
            row.assume(f"vocab = {size}: " + _("derived from the stated parameter count"))
            return size
    row.assume(f"vocab = {_DEFAULT_VOCAB}: " + _("not stated"))
    return _DEFAULT_VOCAB


def _solve(target: int, count: Callable[[int], int]) -> int:
    """The size at which ``count``, linear in it, reaches the target."""
    one, two = count(1), count(2)
    return round(1 + (target - one) / (two - one))


def _learned_positions(row: _Row, rest: int, hidden: int) -> int:
    """Rows of a learned position table, when they explain what is left of the count exactly."""
    positions, remainder = divmod(rest, hidden)
    if remainder or not 0 < positions <= _LONGEST_LEARNED_CONTEXT:
        return 0
    row.assume(
        _("{positions} learned positions: they explain the stated parameter count").format(
            positions=positions
        )
    )
    return positions


def _compare_with_stated(row: _Row, model: ModelSpec, stated: int) -> None:
    total = params_total(model)
    if stated and abs(total / stated - 1) > 0.02:
        row.assume(
            _("the cells describe {total:,} parameters, the row states {stated:,}").format(
                total=total, stated=stated
            )
        )
