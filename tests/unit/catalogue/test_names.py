"""System names as people write them."""

from __future__ import annotations

import pytest

from chipwise.catalogue.hardware import load_accelerator, load_system
from chipwise.catalogue.names import parse_system, resolve_accelerator, select_accelerators
from chipwise.catalogue.slices import near_cube, slice_shape, slice_sizes
from chipwise.errors import UnknownNameError, UsageError
from chipwise.spec.hardware import Cluster


def one(text: str) -> Cluster:
    (cluster,) = parse_system(text)
    return cluster


@pytest.mark.parametrize(
    ("text", "name", "devices", "nodes"),
    [
        ("rtx-4090", "rtx-4090", 1, 1),
        ("rtx-4090:4", "rtx-4090:4", 4, 1),
        ("h100-sxm:8x4", "h100-sxm:8x4", 32, 4),
        ("h100-sxm:4x2", "h100-sxm:4x2", 8, 2),
        ("a100-sxm-80:64", "a100-sxm-80:8x8", 64, 8),
        ("gb200:72", "gb200:72", 72, 1),
        ("gb200:256", "gb200:64x4", 256, 4),  # four racks, 64 of 72 used in each
        ("groq-lpu-v1:576", "groq-lpu-v1:72x8", 576, 8),
        ("v100-sxm2-32@dgx-2:16", "v100-sxm2-32@dgx-2:16", 16, 1),
        ("dgx-2:16", "v100-sxm2-32@dgx-2:16", 16, 1),
    ],
)
def test_counts_and_nodes(text: str, name: str, devices: int, nodes: int) -> None:
    cluster = one(text)
    assert (cluster.name, cluster.num_devices, cluster.num_nodes) == (name, devices, nodes)
    assert one(cluster.name).num_devices == devices  # the normalised name means the same


@pytest.mark.parametrize(
    ("text", "chips", "torus"),
    [
        ("tpu-v5p:16", 16, (2, 2, 4)),
        ("tpu-v5p:256", 256, (4, 8, 8)),
        ("tpu-v5p:6144", 6144, (16, 16, 24)),
        ("tpu-v4:2x2x2", 8, (2, 2, 2)),
        ("tpu-v5e:16", 16, (4, 4)),
        ("tpu-v5e:4x4", 16, (4, 4)),
        ("tpu-v5e:4x2", 8, (2, 4)),
        ("tpu-v5e", 1, (1, 1)),
        ("tpu-v4", 4, (2, 2, 1)),  # nothing smaller is handed out
    ],
)
def test_slices_get_their_shape(text: str, chips: int, torus: tuple[int, ...]) -> None:
    cluster = one(text)
    assert (cluster.num_devices, cluster.torus, cluster.num_nodes) == (chips, torus, 1)
    assert cluster.node.devices == chips


def test_several_slices_are_joined_by_the_data_centre_network() -> None:
    for text in ("tpu-v5e:256x2", "tpu-v5e:512"):
        cluster = one(text)
        assert (cluster.num_devices, cluster.num_nodes, cluster.torus) == (512, 2, (16, 16))


@pytest.mark.parametrize(
    ("text", "chips", "says"),
    [
        ("tpu-v4-8", 4, "counts cores"),
        ("tpu-v3-8", 4, "counts cores"),
        ("v5p-128", 64, "counts cores"),
        ("tpu7x-8", 4, "counts cores"),
        ("v5e-16", 16, "count chips"),
        ("v5litepod-16", 16, "count chips"),
        ("TPU_v6e-8", 8, "count chips"),
    ],
)
def test_cloud_slice_names_count_cores_or_chips(text: str, chips: int, says: str) -> None:
    cluster = one(text)
    assert cluster.num_devices == chips
    assert says in cluster.understood
    assert text in cluster.understood


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("H100", "h100-sxm"),
        ("h100_sxm", "h100-sxm"),
        ("A100-80GB", "a100-sxm-80"),
        ("4090", "rtx-4090"),
        ("RTX 4090", "rtx-4090"),
        ("RTX4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("Instinct MI300X", "mi300x"),
        ("Google TPU v5p", "tpu-v5p"),
        ("trn2", "trainium2"),
    ],
)
def test_other_spellings_are_understood_and_said(text: str, expected: str) -> None:
    found, said = resolve_accelerator(text)
    assert found == expected
    assert text in said
    assert expected in said


def test_the_id_itself_needs_no_explanation() -> None:
    assert one("h100-sxm:8").understood == ""
    assert one("H100-SXM:8").understood == ""


def test_a_list_keeps_its_order() -> None:
    found = parse_system("rtx-4090:8, a100-sxm-80:8,h100-sxm:8,tpu-v5p:16")
    assert [c.name for c in found] == ["rtx-4090:8", "a100-sxm-80:8", "h100-sxm:8", "tpu-v5p:16"]


def test_what_is_written_twice_stands_in_the_list_once() -> None:
    found = parse_system("h100-sxm:8,rtx-4090,H100_SXM:8,h100-sxm:8")
    assert [c.name for c in found] == ["h100-sxm:8", "rtx-4090"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a100:8", "'a100-sxm-40'"),
        ("910b", "'ascend-910b2'"),
        ("h100-sxm:12", "'h100-sxm:8' or 'h100-sxm:16'"),
        ("h100-sxm:16x2", "'h100-sxm:8'"),
        ("gb200:90", "'gb200:72' or 'gb200:144'"),
        ("tpu-v5p:17", "'tpu-v5p:16' or 'tpu-v5p:32'"),
        ("tpu-v4:2x2x3", "2x2x2 or 2x2x4"),
        ("tpu-v4-7", "must be even"),
        ("rtx-4090:0", "from 1"),
        ("rtx-4090:99999999999", "from 1"),
        ("h100:abc", "'abc' is no count"),
        ("h100-sxm:" + "9" * 5000, "is no count"),
        ("tpu-v4-" + "9" * 5000, "unknown accelerator"),
        ("h100-sxm:8x4x2", "no torus machine"),
        ("h100-sxm@hgx-a100-80", "found in hgx-h100"),
        ("hgx-h100:8", "'h100-sxm@hgx-h100'"),
        ("h100-sxm@nowhere", "unknown system"),
        (" , ", "no system given"),
        ("500GB+:3x9x9", "selects no accelerator"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_nearest(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_system(text)
    assert reason in caught.value.message


def test_unknown_name_offers_the_listing() -> None:
    with pytest.raises(UnknownNameError) as caught:
        parse_system("rtx-4091:2")
    assert "'rtx-4090'" in caught.value.message
    assert "chipwise catalogue accelerators" in caught.value.message


def test_selectors_choose_by_size_vendor_kind_and_purchase() -> None:
    assert select_accelerators("h100-sxm") is None
    large = select_accelerators("80GB+")
    assert large is not None
    assert {"a100-sxm-80", "h200-sxm", "tpu-v5p"} <= set(large)
    assert not {"a100-sxm-40", "rtx-4090"} & set(large)
    assert "rtx-4090" in (select_accelerators("24gb+") or [])
    tpus = select_accelerators("google")
    assert tpus == select_accelerators("tpu")
    assert tpus is not None
    assert all(name.startswith("tpu-") for name in tpus)
    bought = select_accelerators("purchasable") or []
    assert "rtx-4090" in bought
    assert "tpu-v5p" not in bought


def test_announced_devices_are_selected_by_name_only() -> None:
    assert "rubin-sxm" not in (select_accelerators("any") or [])
    assert load_accelerator(one("rubin-sxm:72").accelerator.id).announced


def test_selector_with_a_count_leaves_out_those_without_it() -> None:
    names = {cluster.accelerator.id for cluster in parse_system("80GB+:8")}
    assert "h100-sxm" in names
    assert "tpu-v5p" in names  # 2x2x2
    assert "groq-lpu-v1" not in names
    assert all(cluster.num_devices == 8 for cluster in parse_system("80GB+:8"))


def test_slices_are_boxes_of_whole_cubes_or_listed() -> None:
    v4 = load_system("tpu-v4-slice")
    assert slice_shape(v4, 64) == (4, 4, 4)
    assert slice_shape(v4, 512) == (8, 8, 8)
    assert slice_shape(v4, 65) == ()
    assert slice_sizes(v4)[-1] == 4096
    assert slice_sizes(load_system("tpu-v5e-slice")) == [1, 4, 8, 16, 32, 64, 128, 256]


def test_near_cube_spreads_chips_over_all_axes() -> None:
    assert near_cube(24, 3) == (2, 3, 4)
    assert near_cube(50, 2) == (5, 10)
    assert near_cube(7, 3) == (1, 1, 7)
