"""System names as people write them, read as clusters: ``h100-sxm:8x4``, ``tpu-v4-8``.

    ID            one device (the smallest slice of a torus machine)
    ID:N          N devices, in as few nodes as hold them
    ID:NxM        M nodes of N devices; for torus machines a slice shape if it is one
    ID:AxBxC      a slice of that shape
    ID@SYSTEM:…   in that system instead of the accelerator's usual one
    SYSTEM:…      the same by the system's id alone, where it holds one kind of accelerator
    tpu-v4-8      a cloud slice name: v2 to v4, v5p and v7 count cores, v5e and v6e count chips

Letter case, underscores, spaces and makers' names do not matter, common other names are known.
How a name was read is said in ``Cluster.understood`` wherever it was not written in full.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from chipwise.catalogue.clusters import make_cluster
from chipwise.catalogue.hardware import (
    LISTING,
    System,
    accelerator_file,
    accelerator_ids,
    default_system,
    load_accelerator,
    load_system,
    shape_of,
    system_ids,
    systems_of,
)
from chipwise.catalogue.load import file_error, folders, forgettable, line_of, read_toml
from chipwise.errors import UnknownNameError, UsageError, shortened
from chipwise.i18n import _
from chipwise.spec.hardware import Cluster

_MAKERS = (
    *("nvidia", "geforce", "tesla", "amd", "instinct", "radeon", "google", "cloud", "huawei"),
    *("aws", "apple", "intel", "habana", "cambricon"),
)
_CLOUD_SLICE = re.compile(
    r"^(?:tpu-?)?(?P<kind>v2|v3|v4|v5e|v5litepod|v5lite|v5p|v6e|v7x?|7x)-(?P<count>\d{1,20})$"
)
_CLOUD_KINDS = {"v5litepod": "v5e", "v5lite": "v5e", "v7x": "v7", "7x": "v7"}
_COUNT = re.compile(r"^\d{1,20}(?:x\d{1,20}){0,2}$")

_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*gi?b\+$")


def parse_system(text: str) -> list[Cluster]:
    """The clusters that a system name, or a list of them separated by commas, means.

    Args:
        text: names as in the module's notation; selectors (``24GB+``, ``nvidia``, ``any``,
            ``purchasable``) stand for all accelerators they select, one cluster each.

    Returns:
        One cluster per name, in the order written; what is written twice stands there once.

    Raises:
        UnknownNameError: an accelerator or system that is not in the catalogue.
        UsageError: a name that could mean several devices, or a count that cannot be had; names
            the nearest valid ones.
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise UsageError(
            "no-system",
            _("no system given; write one like 'rtx-4090:4', 'h100-sxm:8x4' or 'tpu-v5p:16'"),
        )
    found: dict[str, Cluster] = {}
    for name in dict.fromkeys(names):
        for cluster in _clusters(name):
            found.setdefault(cluster.name, cluster)
    return list(found.values())


def select_accelerators(text: str) -> list[str] | None:
    """The accelerators a selector stands for; None when the text is no selector.

    Args:
        text: ``any`` (all that can be had), ``purchasable`` (can be bought, not only rented), a
            vendor (``nvidia``), a kind (``gpu``, ``tpu``), or a memory size (``24GB+``, compared
            with the size sold).
    """
    wanted = text.strip().lower()
    shipping = [name for name in accelerator_ids() if not load_accelerator(name).announced]
    if wanted == "any":
        return shipping
    if wanted == "purchasable":
        return [name for name in shipping if load_accelerator(name).purchasable]
    if size := _SIZE.match(wanted):
        return [name for name in shipping if _sold_gigabytes(name) >= float(size[1])]
    chosen = [
        name
        for name in shipping
        if wanted in (load_accelerator(name).vendor, load_accelerator(name).kind)
    ]
    return chosen or None


def _sold_gigabytes(accelerator: str) -> float:
    """The size on the box, which is what people mean by ``24GB+``."""
    _path, table = accelerator_file(accelerator)
    sold = table.get("values", {}).get("sold_memory", {}).get("value", "")
    if match := re.match(r"([\d.]+)\s*GB$", str(sold)):
        return float(match[1])
    return load_accelerator(accelerator).memory_bytes / 2**30


def _clusters(name: str) -> list[Cluster]:
    if cloud := _cloud_slice(name):
        return [cloud]
    left, _colon, count = name.partition(":")
    if _colon and not _COUNT.match(count.strip().lower()):
        raise UsageError(
            "bad-count",
            _("'{name}': '{count}' is no count; write '8', '8x4' or a slice shape '2x2x4'").format(
                name=shortened(name), count=shortened(count)
            ),
            name=name,
        )
    factors = shape_of(count.strip()) if _colon else ()
    if is_selector(left):
        return _selected(left, factors)
    accelerator, system, understood = _resolve(left)
    return [make_cluster(accelerator, factors, system, understood)]


def is_selector(text: str) -> bool:
    """Whether a name without a count stands for several accelerators."""
    wanted = text.strip().lower()
    if wanted in ("any", "purchasable") or _SIZE.match(wanted):
        return True
    if not wanted.isalpha():
        return False
    try:
        resolve_accelerator(text)
    except UsageError:
        return select_accelerators(text) is not None
    return False


def _selected(text: str, factors: tuple[int, ...]) -> list[Cluster]:
    """One cluster for each selected accelerator that can be had in that count."""
    found = []
    for accelerator in select_accelerators(text) or []:
        understood = _("'{text}' selects {name}").format(text=text.strip(), name=accelerator)
        try:
            found.append(make_cluster(accelerator, factors, None, understood))
        except UsageError:
            continue
    if not found:
        raise UsageError(
            "nothing-selected",
            _("'{text}' selects no accelerator that can be had in that count").format(text=text),
            text=text,
        )
    return found


def _cloud_slice(name: str) -> Cluster | None:
    match = _CLOUD_SLICE.match(name.strip().lower().replace("_", "-"))
    if not match:
        return None
    kind = _CLOUD_KINDS.get(match["kind"], match["kind"])
    accelerator = f"tpu-{kind}"
    stated = int(match["count"])
    cores = load_accelerator(accelerator).cores_per_device
    if not default_system(accelerator).cores_in_names:
        said = _("'{name}' understood as {chips} chips of {id}: names of this kind count chips")
        return make_cluster(
            accelerator, (stated,), None, said.format(name=name, chips=stated, id=accelerator)
        )
    if stated % cores:
        raise UsageError(
            "odd-cores",
            _("'{name}': the number counts cores, {cores} to a chip, so it must be even").format(
                name=name, cores=cores
            ),
            name=name,
        )
    chips = stated // cores
    said = _(
        "'{name}' understood as {chips} chips of {id}: the name counts cores, {cores} to a chip"
    ).format(name=name, chips=chips, id=accelerator, cores=cores)
    return make_cluster(accelerator, (chips,), None, said)


def _resolve(text: str) -> tuple[str, System | None, str]:
    """Accelerator, system (None: the usual one) and how the text was read."""
    left, at, right = text.partition("@")
    if at:
        accelerator, understood = resolve_accelerator(left)
        system = load_system(_tidy(right))
        if accelerator not in system.accelerators:
            raise UsageError(
                "system-without-accelerator",
                _(
                    "system '{system}' holds {held}, not '{name}'; '{name}' is found in {found}"
                ).format(
                    system=system.id,
                    held=", ".join(system.accelerators),
                    name=accelerator,
                    found=", ".join(other.id for other in systems_of(accelerator)),
                ),
            )
        return accelerator, system, understood
    if _tidy(text) in system_ids() and _tidy(text) not in accelerator_ids():
        return _resolve_system(load_system(_tidy(text)))
    accelerator, understood = resolve_accelerator(text)
    return accelerator, None, understood


def _resolve_system(system: System) -> tuple[str, System, str]:
    if len(system.accelerators) > 1:
        raise UsageError(
            "ambiguous-system",
            _("system '{system}' holds several kinds: write {examples}").format(
                system=system.id,
                examples=", ".join(f"'{name}@{system.id}'" for name in system.accelerators),
            ),
        )
    accelerator = system.accelerators[0]
    understood = _("'{system}' understood as {count} x {name}").format(
        system=system.id, count=system.devices, name=accelerator
    )
    return accelerator, system, understood


def resolve_accelerator(text: str) -> tuple[str, str]:
    """The id that a name means, and a sentence if the name was not the id itself.

    Raises:
        UnknownNameError: not in the catalogue.
        UsageError: several devices bear the name; lists them.
    """
    if text in accelerator_ids():
        return text, ""
    tidy = _tidy(text)
    found = (tidy,) if tidy in accelerator_ids() else _spellings().get(_squashed(tidy), ())
    if not found:
        raise UnknownNameError("accelerator", text.strip(), accelerator_ids(), LISTING)
    if len(found) > 1:
        raise UsageError(
            "ambiguous-accelerator",
            _("'{name}' could be {candidates}; write which").format(
                name=text.strip(), candidates=_(" or ").join(f"'{name}'" for name in found)
            ),
            name=text.strip(),
            candidates=found,
        )
    if found[0] == text.strip().lower():
        return found[0], ""
    return found[0], _("'{name}' understood as {id}").format(name=text.strip(), id=found[0])


def _tidy(text: str) -> str:
    """Lower case, with hyphens for spaces and underscores, and no maker's name in front."""
    words = re.split(r"[\s_-]+", text.strip().lower())
    while len(words) > 1 and words[0] in _MAKERS:
        words.pop(0)
    return "-".join(words)


def _squashed(text: str) -> str:
    return text.replace("-", "")


@cache
def _spellings() -> Mapping[str, tuple[str, ...]]:
    """Ids by every spelling, without hyphens; several where a spelling does not decide."""
    found: dict[str, tuple[str, ...]] = {}
    for name in accelerator_ids():
        found[_squashed(name)] = (name,)
        if name.startswith(("rtx-", "rx-")):
            found.setdefault(_squashed(name.partition("-")[2]), (name,))
    for folder in reversed(folders()):
        path = folder / "aliases.toml"
        if path.is_file():
            for alias, names in read_toml(path).items():
                found[_squashed(_tidy(alias))] = _meant(path, alias, names)
    return found


def _meant(path: Path, alias: str, names: object) -> tuple[str, ...]:
    """The ids behind one line of an alias file."""
    listed = names if isinstance(names, list) else [names]
    for name in listed:
        if name not in accelerator_ids():
            text = _("'{alias}' stands for '{name}', which is no accelerator")
            line = line_of(path, alias)
            raise file_error(path, line, text.format(alias=alias, name=name))
    return tuple(map(str, listed))


forgettable(_spellings.cache_clear)
