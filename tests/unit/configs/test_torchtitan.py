from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.errors import UsageError
from tests.unit.configs.recipe_texts import fields, reading


def _text(more: str = "", training: str = "local_batch_size = 4", flavor: str = "8B") -> str:
    head = (
        f'[model]\nname = "llama3"\nflavor = "{flavor}"\n[training]\nseq_len = 8192\n{training}\n'
    )
    return head + more


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", {"model": "llama-3.1-8b", "seq": 8192, "micro_batch": 4, "shard": "fsdp"}),
        # nothing said: selective, every second layer
        ("", {"recompute": "full", "recompute_every": 2}),
        ('[activation_checkpoint]\nmode = "none"', {"recompute": "none", "recompute_every": None}),
        ('[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "op"',
         {"recompute": "selective", "recompute_every": None}),
        ('[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "3"',
         {"recompute": "full", "recompute_every": 3}),
        # 2 copies × 4 shards = 8 data-parallel ranks; shards over 4 × 2 with context parallelism
        ("[parallelism]\ndata_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\n"
         "context_parallel_degree = 2", {"dp": 8, "shard_group": 8, "cp": 2}),
        ("[parallelism]\ndata_parallel_shard_degree = 1", {"shard": "none", "dp": 1}),
        ('[parallelism]\nfsdp_reshard_after_forward = "never"', {"shard": "zero2"}),
        ("[parallelism]\npipeline_parallel_degree = 2",
         {"pp": 2, "micro_batch": 1, "accumulation": 4, "shard": "zero2"}),
        ("[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 2",
         {"micro_batch": 2, "accumulation": 2}),
        ('[parallelism]\npipeline_parallel_degree = 2\n'
         'pipeline_parallel_schedule = "Interleaved1F1B"',
         {"pp_schedule": "interleaved-1f1b", "vpp": 2}),
        # older versions cut into as many pieces as there are stages: 4 ÷ 2
        ("[experimental]\npipeline_parallel_degree = 2", {"micro_batch": 2, "accumulation": 2}),
        ('[compile]\nenable = true\ncomponents = ["loss"]', {"compile": False}),
        ("[compile]\nenable = true", {"compile": True}),
        ("[float8]\nenable_float8_linear = true", {"precision": "fp8"}),
    ],
)  # fmt: skip
def test_keys_become_fields(tmp_path: Path, more: str, expected: dict[str, object]) -> None:
    found = fields(tmp_path, "t.toml", _text(more))
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ("batch_size = 2\ntensor_parallel_degree = 8\ncompile = true",
         {"micro_batch": 2, "tp": 8, "compile": True}),
        ("data_parallel_degree = 16", {"dp": 16, "shard": "fsdp"}),
        ('dtype = "bfloat16"', {"precision": "bf16", "master_weights": False}),
        ("global_batch_size = -1", {"global_batch": None}),
        ("global_batch_size = 512\nenable_cpu_offload = true",
         {"global_batch": 512, "offload": "optimizer,params"}),
    ],
)  # fmt: skip
def test_the_training_table(tmp_path: Path, training: str, expected: dict[str, object]) -> None:
    found = fields(tmp_path, "t.toml", _text(training=training))
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        (_text(flavor="80B"), 3, "8B"),
        (_text('[activation_checkpoint]\nmode = "most"'), 8, "selective"),
        (_text('[parallelism]\npipeline_parallel_degree = 2\n'
               'pipeline_parallel_schedule = "Interleaved1F1"'), 9, "Interleaved1F1B"),
        (_text("[parallelism]\npipeline_parallel_degree = 2\n"
               "pipeline_parallel_microbatch_size = 3"), 9, "equal pieces"),
        (_text('[optimizer]\nname = "AdamV"'), 8, "adamw"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        reading(tmp_path, "t.toml", text)
    assert f"t.toml:{line}" in caught.value.message
    assert hint in caught.value.message


def test_test_models_are_left_open(tmp_path: Path) -> None:
    found = reading(tmp_path, "t.toml", _text(flavor="debugmodel"))
    assert found.value("model") is None
    assert "--model" in found.notes[0]
