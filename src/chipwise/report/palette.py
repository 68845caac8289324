"""Which colour stands for what: the same vendor and the same part look the same everywhere.

Hues are those of Okabe and Ito, told apart with any kind of colour blindness. A part of a bar has
the hue of its kind (weights blue, gradients green, …) in a lightness of its own; vendors differ in
shape too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

VENDORS: Mapping[str, tuple[str, str]] = {
    "nvidia": ("#009E73", "circle"),
    "amd": ("#D55E00", "square"),
    "google": ("#0072B2", "triangle-up"),
    "intel": ("#56B4E9", "diamond"),
    "aws": ("#E69F00", "triangle-down"),
    "huawei": ("#CC79A7", "cross"),
    "apple": ("#707070", "circle"),
    "cambricon": ("#7A4A1F", "triangle-right"),
    "cerebras": ("#8F8300", "square"),
    "groq": ("#000000", "diamond"),
    "sambanova": ("#6A3D9A", "triangle-left"),
}
"""Colour and shape of a mark."""
VENDOR_UNKNOWN = ("#9A9A9A", "circle")
VENDOR_NAMES: Mapping[str, str] = {
    **{"nvidia": "NVIDIA", "amd": "AMD", "google": "Google", "intel": "Intel", "aws": "AWS"},
    **{"huawei": "Huawei", "apple": "Apple", "cambricon": "Cambricon", "cerebras": "Cerebras"},
    **{"groq": "Groq", "sambanova": "SambaNova"},
}

MEMORY: Mapping[str, str] = {
    **{"weights": "#0072B2", "adapters": "#56B4E9", "gathered weights": "#8CC7EC"},
    **{"dequantised": "#C0E0F5", "checkpoint being loaded": "#3F5F8A"},
    **{"gradients": "#009E73", "gathered gradient": "#7FCEB9"},
    **{"optimizer states": "#E69F00", "optimizer step copies": "#F3CF80"},
    "communication buffers": "#CC79A7",
    **{
        "reference weights": "#3A7CA5",
        "reward model weights": "#81A4CD",
        "teacher weights": "#16425B",
    },
    **{"critic states": "#C98B0B", "critic at work": "#A85B00"},
    **{"rollout engine weights": "#5B3758", "rollout KV cache": "#B07AA1"},
    **{"kept activations": "#D55E00", "recomputed layer": "#EAAE7F"},
    **{"teacher logits": "#B8AE2E", "logits and loss": "#F0E442", "working memory": "#8C6BB1"},
    **{"keys and values": "#D55E00", "forward pass": "#8C6BB1"},
    **{"CUDA graphs": "#A6A6A6", "context and communicators": "#D0D0D0"},
    "other live tensors": "#6B6B6B",
}
"""Lines of the memory bill, in the order in which they are stacked."""
TIME: Mapping[str, str] = {
    **{"matrix products": "#0072B2", "attention": "#56B4E9", "head and loss": "#A6D8F5"},
    **{"memory-bound operators": "#009E73", "gradient accumulation": "#66C2A5"},
    "optimizer": "#B2DFD3",
    **{"tensor-parallel communication": "#D55E00", "context-parallel communication": "#E6894A"},
    **{"expert communication": "#F0AE80", "pipeline communication": "#F7DD9A"},
    **{"gathering sharded weights": "#E69F00", "gradient synchronisation": "#F2C14E"},
    **{"fetching weights from the host": "#B8860B", "optimizer on the host": "#8B6508"},
    "fetching activations from the host": "#D4A94A",
    **{"generating answers": "#5B3758", "scoring without gradients": "#B07AA1"},
    "training the critic": "#C98B0B",
    **{"pipeline bubble": "#CC79A7", "stragglers": "#E6BCD3"},
    **{"host launches": "#4D4D4D", "host per micro-batch": "#808080", "host per step": "#B3B3B3"},
}
"""Shares of a step: computing blue, moving memory green, communication orange, waiting
pink, what an objective adds violet and brown."""
MODES: Mapping[str, tuple[str, str]] = {
    "strong": ("#0072B2", "circle"),
    "weak": ("#D55E00", "square"),
}
"""Kinds of scaling."""
PART_UNKNOWN = "#E0E0E0"
DARK, LIGHT = "#1F1F1F", "#FFFFFF"
_MIDDLE = 0.42


def vendor_name(vendor: str) -> str:
    """As the maker writes itself; as given where we do not know."""
    return VENDOR_NAMES.get(vendor, vendor)


def in_order(names: Iterable[str], colours: Iterable[str]) -> list[str]:
    """Names once each: known ones in the order of the table, then the others as they come."""
    found = dict.fromkeys(names)
    return [name for name in colours if name in found] + [
        name for name in found if name not in colours
    ]


def ink(colour: str) -> str:
    """Black or white, whichever is read better on the colour (``#RRGGBB``)."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return LIGHT if 0.299 * red + 0.587 * green + 0.114 * blue < _MIDDLE + 0.1 else DARK
