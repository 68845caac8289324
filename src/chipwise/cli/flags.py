"""Every flag once: its name, meaning, choices, and the section of the help it stands in.

The tables are functions, because their sentences are translated when they are asked for. A
flag's field in requests, run files and ``CHIPWISE_*`` variables is its name with underscores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chipwise.i18n import _

Kind = Literal["text", "switch", "pair", "list"]


@dataclass(frozen=True)
class Flag:
    """One flag: ``text`` takes a value, ``switch`` none, ``pair`` has a ``--no-`` twin."""

    name: str
    help: str
    metavar: str = ""
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    section: str = ""

    @property
    def field(self) -> str:
        """Name in requests, run files and (upper case, prefixed) the environment."""
        return self.name.replace("-", "_")

    @property
    def spelled(self) -> tuple[str, ...]:
        """The spellings typer is given."""
        pair = f"--{self.name}/--no-{self.name}" if self.kind == "pair" else f"--{self.name}"
        return (pair, *(f"--{alias}" for alias in self.aliases))


@dataclass(frozen=True)
class Argument:
    """One positional argument; its field may also come from a run file."""

    name: str
    help: str
    required: bool = True

    @property
    def field(self) -> str:
        """Name in requests and run files."""
        return self.name.lower()


def output_flags() -> tuple[Flag, ...]:
    """Flags that every command takes; none of them reaches a request."""
    section = _("Output and settings")
    formats = ("table", "json", "csv", "md", "html")
    return (
        Flag("json", _("JSON on stdout; same as --format json"), kind="switch", section=section),
        Flag("format", _("how to write the answer"), "F", choices=formats, section=section),
        Flag("out", _("write the answer to this file instead"), "FILE", section=section),
        Flag("lang", _("language of the texts"), "LANG", choices=("en", "zh"), section=section),
        Flag("config", _("run file (TOML) with the same fields; flags win"), "JOB.toml",
             section=section),
        Flag("catalogue", _("folder with your own catalogue files"), "DIR", section=section),
        Flag("quiet", _("only the answer, no notes"), kind="switch", section=section),
    )  # fmt: skip


def picture_flags(pictures: tuple[str, ...]) -> tuple[Flag, ...]:
    """Flags of commands whose answers can be drawn; none of them reaches a request."""
    section = _("Picture")
    return (
        Flag("plot", _("also draw the answer; the suffix decides: .svg, .png, .html, or .csv for "
             "its numbers"), "FILE", section=section),
        Flag("picture", _("draw only this picture"), "P", choices=pictures, section=section),
    )  # fmt: skip


def patch_flag() -> Flag:
    """The answer as a change of the person's own file; it does not reach a request."""
    text = _("print the one change as a diff of the --job files, and nothing else")
    return Flag("patch", text, kind="switch", section=_("Output and settings"))


def system_flag() -> Flag:
    """Where the job runs."""
    return Flag(
        "on",
        _("system such as h100-sxm:8, h100-sxm:8x4 (4 nodes of 8) or tpu-v5p:16"),
        "SYSTEM",
        section=_("Job"),
    )


def job_flags() -> tuple[Flag, ...]:
    """What is trained."""
    section = _("Job")
    return (
        Flag("job", _("a configuration you already have: of axolotl, TRL, DeepSpeed, accelerate, "
                      "LLaMA-Factory, torchtune …; flags win (repeatable)"), "FILE", kind="list",
             section=section),
        Flag("tool", _("tool whose defaults hold where nothing is stated, such as axolotl"), "T",
             section=section),
        Flag("seq", _("sequence length in tokens"), "N", section=section),
        Flag("global-batch", _("sequences per optimizer step, whole job"), "N", section=section),
        Flag("accumulation", _("micro-batches per optimizer step, in place of --global-batch"), "N",
             section=section),
        Flag("precision", _("number format of the matmuls"), "D", section=section,
             aliases=("dtype",), choices=(
            "fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "int8", "mxfp4", "nvfp4")),
    )  # fmt: skip


def objective_flags() -> tuple[Flag, ...]:
    """What training minimises, and what it needs beside the policy."""
    section = _("Objective")
    return (
        Flag("loss", _("what is minimised: next tokens, preferences, rewards, a teacher's outputs"),
             "L", section=section, choices=(
            "sft", "dpo", "orpo", "kto", "reward", "ppo", "grpo", "distill")),
        Flag("reference", _("frozen start of the policy, to stay near it"), "R", section=section,
             choices=("none", "copy", "offloaded", "adapter-off", "precomputed")),
        Flag("prompt-len", _("tokens of a prompt (ppo, grpo)"), "N", section=section),
        Flag("completion-len", _("tokens generated for it at most"), "N", section=section),
        Flag("group-size", _("completions of one prompt (grpo)"), "N", section=section),
        Flag("ppo-epochs", _("times each rollout is trained on"), "N", section=section),
        Flag("rollout", _("generate on the devices that train, or on others beside them"), "W",
             choices=("shared", "apart"), section=section),
        Flag("rollout-devices", _("devices beside the system that only generate"), "N",
             section=section),
        Flag("rollout-tp", _("devices of one rollout engine"), "N", section=section),
        Flag("rollout-batch", _("sequences of one rollout, if more than a global batch"), "N",
             section=section),
        Flag("rollout-memory", _("share of device memory the engine fills, such as 0.5"), "X",
             section=section),
        Flag("rollout-sleep", _("the engine gives its memory back while training"), kind="pair",
             section=section),
        Flag("critic", _("value model of ppo, else one like the policy"), "MODEL",
             section=section),
        Flag("reward-model", _("model that scores answers; for ppo else one like the policy"),
             "MODEL", section=section),
        Flag("teacher", _("model to learn from (distill)"), "MODEL", section=section),
    )  # fmt: skip


def layout_flags() -> tuple[Flag, ...]:
    """How the job is split over devices."""
    section = _("Layout")
    return (
        Flag("micro-batch", _("sequences per device and forward pass"), "N", section=section),
        Flag("tp", _("tensor-parallel degree"), "N", section=section),
        Flag("pp", _("pipeline-parallel degree"), "N", section=section),
        Flag("dp", _("data-parallel degree"), "N", section=section),
        Flag("cp", _("context-parallel degree"), "N", section=section),
        Flag("ep", _("expert-parallel degree"), "N", section=section),
        Flag("vpp", _("virtual pipeline stages per device"), "N", section=section),
        Flag("pp-schedule", _("order of micro-batches in the pipeline"), "S", section=section,
             choices=("1f1b", "interleaved-1f1b", "zero-bubble", "dualpipe")),
        Flag("sequence-parallel", _("shard norm and dropout activations over the tp group"),
             kind="pair", section=section),
        Flag("shard", _("states sharded over data parallel"), "S", section=section,
             choices=("none", "zero1", "zero2", "zero3", "fsdp")),
        Flag("shard-group", _("ranks to shard over, fewer than all (HSDP)"), "N", section=section),
        Flag("framework", _("whose behaviour to model"), "F", section=section, choices=(
            "megatron-core", "megatron", "deepspeed", "fsdp", "finetune", "nanotron", "xla",
            "gaudi", "ascend", "other")),
    )  # fmt: skip


def memory_flags() -> tuple[Flag, ...]:
    """What trades time or precision for memory."""
    section = _("Memory")
    return (
        Flag("recompute", _("activations computed again in the backward pass"), "R",
             choices=("none", "selective", "full"), section=section),
        Flag("recompute-every", _("with full: only every N-th layer"), "N", section=section),
        Flag("attention", _("attention kernel"), "K", choices=("eager", "sdpa", "flash"),
             section=section),
        Flag("optimizer", _("optimizer and the format of its states"), "O", section=section,
             choices=("adamw", "adamw-bf16", "adamw-8bit", "paged-adamw", "paged-adamw-8bit",
                      "galore-adamw", "galore-adamw-8bit", "adafactor", "sgd", "lion",
                      "paged-lion", "muon")),
        Flag("optimizer-in-backward", _("update weights while gradients are computed, and free "
             "them layer by layer"), kind="pair", section=section),
        Flag("grad-dtype", _("number format of gradients"), "D",
             choices=("bf16", "fp16", "fp32"), section=section),
        Flag("master-weights", _("keep an fp32 copy of trained weights"), kind="pair",
             section=section),
        Flag("offload", _("keep in host memory: optimizer, params, activations (repeatable)"),
             "WHAT", kind="list", choices=("optimizer", "params", "activations"),
             section=section),
        Flag("chunked-loss", _("cross entropy without the full logits"), "C",
             choices=("no", "yes", "fused"), section=section),
        Flag("compile", _("compiled model (torch.compile, XLA)"), kind="pair", section=section),
        Flag("graphs", _("steps recorded whole and replayed, experts in fused kernels"),
             kind="pair", section=section),
        Flag("host-memory", _("host memory of one node, such as 128GB"), "SIZE", section=section),
        Flag("headroom", _("share of device memory to leave free, such as 10%"), "X",
             section=section),
    )  # fmt: skip


def serving_flags() -> tuple[Flag, ...]:
    """How an engine serves the model."""
    section = _("Serving")
    return (
        Flag("engine", _("serving engine"), "E", section=section,
             choices=("vllm", "sglang", "trt-llm", "llama.cpp")),
        Flag("weights-dtype", _("storage of the weights: bf16, fp8, int8, awq, gptq, nf4, mxfp4, "
             "nvfp4, q4_k_m, q8_0 and others"), "W", section=section),
        Flag("kv-dtype", _("number format of keys and values"), "D", section=section,
             choices=("fp32", "bf16", "fp16", "fp8", "int8", "int4")),
        Flag("context", _("tokens of one sequence, prompt and answer"), "N", section=section),
        Flag("concurrency", _("sequences at once"), "N", section=section),
        Flag("gpu-memory-utilization", _("share of device memory the engine plans with"), "X",
             section=section),
        Flag("max-num-batched-tokens", _("most tokens of one forward pass"), "N", section=section),
        Flag("max-num-seqs", _("most sequences of one forward pass"), "N", section=section),
    )  # fmt: skip


def serve_speed_flags() -> tuple[Flag, ...]:
    """A deployment and its traffic."""
    job, layout, traffic, cost = _("Job"), _("Layout"), _("Traffic"), _("Cost")
    engine = tuple(flag for flag in serving_flags() if flag.name not in ("context", "concurrency"))
    precision = next(flag for flag in job_flags() if flag.name == "precision")
    degrees = (("tp", _("tensor-parallel degree of a copy")),
               ("pp", _("pipeline-parallel degree of a copy")),
               ("dp", _("copies of the model side by side")))  # fmt: skip
    return (
        Flag("on", _("the system, such as h100-sxm:8 or rtx-4090"), "SYSTEM", section=job),
        Flag("input-len", _("tokens of a prompt"), "N", section=traffic),
        Flag("output-len", _("tokens of an answer"), "N", section=traffic),
        Flag("concurrency", _("users at once; else as many as fit"), "N", section=traffic),
        *(Flag(name, text, "N", section=layout) for name, text in degrees),
        precision,
        *engine,
        Flag("headroom", _("share of the memory to leave free"), "X", section=_("Serving")),
        Flag("market", _("on what terms the machine is rented"), "M", section=cost,
             choices=("on-demand", "spot", "1y", "3y")),
        as_of_flag(cost),
    )  # fmt: skip


def override_flag() -> Flag:
    """Measured values that replace computed ones."""
    return Flag(
        "set",
        _("a measured value in place of a computed quantity, such as step_time=1.2s (repeatable)"),
        "QUANTITY=VALUE",
        kind="list",
        section=_("Job"),
    )


def run_flags() -> tuple[Flag, ...]:
    """How long the run is, and what it does beside its steps."""
    section = _("Run")
    return (
        Flag("tokens", _("tokens to train on, such as 2B"), "N", section=section),
        Flag("epochs", _("passes over --examples, instead of --tokens"), "N", section=section),
        Flag("examples", _("sequences of one epoch, such as 52k"), "N", section=section),
        Flag("checkpoint-every", _("steps from one checkpoint to the next"), "STEPS",
             section=section),
        Flag("storage-bandwidth", _("writing checkpoints, whole job, such as 10GB/s"), "RATE",
             section=section),
        Flag("data-bandwidth", _("reading training data, whole job"), "RATE", section=section),
        Flag("data-stall", _("waiting for data, as a share of the steps' time, such as 5%"), "X",
             section=section),
    )  # fmt: skip


def cost_flags() -> tuple[Flag, ...]:
    """How the run is paid and powered."""
    section = _("Cost")
    return (
        Flag("market", _("how devices are rented; 1y and 3y are hourly prices under a commitment"),
             "M", choices=("on-demand", "spot", "1y", "3y"), section=section),
        as_of_flag(section),
        Flag("power-cap", _("power limit of one device, such as 500W"), "W", section=section),
        Flag("pue", _("power of the whole site over that of its machines, such as 1.2"), "X",
             section=section),
    )  # fmt: skip


def as_of_flag(section: str) -> Flag:
    """The day on which prices are to be known."""
    return Flag("as-of", _("prices as known on this day, such as 2026-08-31"), "DATE",
                section=section)  # fmt: skip


def observed_flag() -> Flag:
    """What the user's own runs measured."""
    return Flag(
        "observed",
        _("your own run: step_time=1.85s, tokens_per_s, tokens_per_s_per_device, mfu or "
          "peak_memory of this configuration, or a CSV of runs on this machine (repeatable)"),
        "NAME=VALUE|FILE",
        kind="list",
        section=_("Job"),
    )  # fmt: skip


def plan_flags() -> tuple[Flag, ...]:
    """Limits and the aim of a search."""
    section = _("Plan")
    return (
        Flag("objective", _("what the ranking minimises"), "O",
             choices=("time", "device-hours", "cost", "energy"), section=section),
        Flag("deadline", _("longest time allowed, such as 14d"), "D", section=section),
        Flag("budget", _("most the run may cost, such as 5000USD"), "USD", section=section),
        Flag("max-devices", _("most devices a plan may use"), "N", section=section),
        Flag("top", _("plans to show"), "N", section=section),
        Flag("vary", _("choose among values that change training: precision=bf16,fp8, optimizer=…, "
                       "global-batch=512,1024 (repeatable)"), "NAME=V,V", kind="list",
             section=section),
        Flag("ray", _("search on a Ray cluster: local starts one, else auto or its address"),
             "ADDRESS", section=section),
        Flag("scaling", _("also scaling curves of the first plan up to N devices"), "N",
             section=section),
    )  # fmt: skip


def study_flags() -> tuple[Flag, ...]:
    """Where a study's results go, and where it is worked on."""
    section = _("Study")
    return (
        Flag("into", _("folder of the results, else named like the file"), "DIR", section=section),
        Flag("ray", _("work on a Ray cluster: local starts one, else auto or its address"),
             "ADDRESS", section=section),
    )  # fmt: skip


def estimate_flags() -> tuple[Flag, ...]:
    """All that describes one training configuration."""
    from chipwise.cli.tuning_flags import tuning_flags

    job = (system_flag(), *job_flags(), override_flag())
    return (*job, *tuning_flags(), *objective_flags(), *layout_flags(), *memory_flags())
