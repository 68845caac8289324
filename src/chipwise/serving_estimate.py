"""From columns to what users of a serving engine see: passes first, then the load on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chipwise.physics.serving_model import LOAD, PASS, SERVING
from chipwise.quantity import Array

SPEED = (
    *("time_per_output_token", "time_to_first_token", "output_rate", "prompt_rate"),
    *("single_prompt_time", "step_time", "resident_sequences"),
)
_ONE = {"pass_sequences": 0.0, "pass_context": 0.0, "graphed": 0.0}
_ROOM = ("kv_room_bytes", "device_kv_share", "kv_shards", "attention_weights_bytes",
         "small_weights_bytes", "head_table_bytes")  # fmt: skip


def serving_speed(
    columns: Mapping[str, Array], targets: Sequence[str] = SPEED, *, keep_all: bool = False
) -> dict[str, Array]:
    """What users see of a deployment under its traffic.

    Args:
        columns: all inputs and constants, broadcastable.
        targets: quantities of the load wanted.
        keep_all: return every intermediate as well; those of the decode pass among them.
    """
    given = {**columns, **SERVING.evaluate(columns, _ROOM)}
    batch = LOAD.evaluate(given, ("step_sequences", "prompts_per_pass"))
    users, prompt = batch["step_sequences"], np.asarray(columns["prompt_tokens"], np.float64)
    context = prompt + np.asarray(columns["output_tokens"]) / 2
    decode = {
        **{"pass_tokens": users, "pass_sequences": users, "pass_context": context},
        **{"pass_prompts": 0.0, "pass_logit_rows": users, "graphed": 1.0},
    }
    several = batch["prompts_per_pass"]
    passes: dict[str, dict[str, Array]] = {
        "decode_pass_time": decode,
        "prompt_pass_time": {**_ONE, "pass_tokens": prompt, "pass_prompts": 1.0,
                             "pass_logit_rows": 1.0},
        "prompts_pass_time": {**_ONE, "pass_tokens": prompt * several, "pass_prompts": several,
                              "pass_logit_rows": several},
    }  # fmt: skip
    times: dict[str, Array] = {}
    kept: dict[str, Array] = {}
    for name, about in passes.items():
        found = PASS.evaluate({**given, **about}, ("pass_time",), keep_all=keep_all)
        times[name] = found["pass_time"]
        if name == "decode_pass_time":
            kept = {**about, **found}
    answer = LOAD.evaluate({**given, **times}, targets, keep_all=keep_all)
    return {**given, **kept, **times, **answer} if keep_all else answer
