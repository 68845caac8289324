"""Accelerators and systems: the values of the files, in SI units, with provenance."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from chipwise.catalogue.clusters import cluster_as_run
from chipwise.catalogue.derive import explain_bandwidth, explain_peak
from chipwise.catalogue.hardware import (
    accelerator_ids,
    accelerator_provenance,
    load_accelerator,
    load_node,
    load_system,
    microbenchmarks,
    system_ids,
    systems_of,
)
from chipwise.catalogue.load import DATA, use_catalogue
from chipwise.catalogue.names import resolve_accelerator
from chipwise.errors import DataFileError, UnknownNameError, UsageError

GIB = 2**30


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """An empty catalogue folder of one's own."""
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "systems").mkdir()
    use_catalogue(tmp_path)
    yield tmp_path
    use_catalogue(None)


def copy_h100(own: Path, **replaced: str) -> Path:
    """The bundled H100 in one's own folder as ``my-card``, with pieces of text replaced."""
    text = (DATA / "accelerators" / "h100-sxm.toml").read_text(encoding="utf-8")
    text = text.replace('id = "h100-sxm"', 'id = "my-card"')
    for old, new in replaced.items():
        text = text.replace(old, new)
    path = own / "accelerators" / "my-card.toml"
    path.write_text(text, encoding="utf-8")
    use_catalogue(own)
    return path


def test_every_accelerator_loads_with_a_default_node() -> None:
    for name in accelerator_ids():
        node = load_node(name)
        assert load_accelerator(name).id == name
        assert node.accelerator == name
        assert node.network_bandwidth > 0
    assert len(accelerator_ids()) >= 103


def test_every_system_loads_for_each_accelerator_it_lists() -> None:
    for name in system_ids():
        for accelerator in load_system(name).accelerators:
            assert load_node(accelerator, name).devices == load_system(name).devices


def test_a100_sxm_80_as_its_datasheet_states() -> None:
    # NVIDIA A100 datasheet: 312 TFLOPS bf16 dense, 2039 GB/s, NVLink 600 GB/s both ways;
    # nvidia-smi: 81920 MiB = 80 GiB; DGX A100: eight of them, 200 Gb/s each = 25 GB/s.
    device = load_accelerator("a100-sxm-80")
    assert device.peak_flops["bf16"] == 312e12
    assert device.peak_bandwidth == 2039e9
    assert device.scaleup_bandwidth == 300e9
    assert device.memory_bytes == 80 * GIB
    assert 79.15 * GIB <= device.visible_bytes <= 79.33 * GIB
    node = load_node("a100-sxm-80")
    assert (node.devices, node.intra_bandwidth, node.network_bandwidth) == (8, 300e9, 25e9)
    assert node.topology == "switch"


def test_memory_counts_binary_gigabytes_where_the_label_does() -> None:
    # nvidia-smi totals; 275040 MiB = 288.4e9 B is why the B300 is sold as 288 GB.
    assert load_accelerator("h200-sxm").memory_bytes == 143771 * 2**20
    assert load_accelerator("b300-sxm").memory_bytes == pytest.approx(288.4e9, rel=1e-3)
    assert load_accelerator("rtx-4090").memory_bytes == 24 * GIB
    assert load_accelerator("groq-lpu-v1").memory_bytes == 230e6


def test_visible_memory_never_exceeds_memory() -> None:
    for name in accelerator_ids():
        device = load_accelerator(name)
        assert 0 < device.visible_bytes <= device.memory_bytes


def test_geforce_copies_pass_through_the_host() -> None:
    device = load_accelerator("rtx-4090")
    assert device.family == "nvidia-geforce"
    assert not device.peer_to_peer
    assert device.scaleup_bandwidth == 0
    assert load_node("rtx-4090").topology == "host"


def test_narrow_accumulation_has_its_own_peak() -> None:
    # Ada whitepaper, RTX 4090: 165.2 with fp32 accumulation, 330.3 with fp16 accumulation.
    peaks = load_accelerator("rtx-4090").peak_flops
    assert (peaks["fp16"], peaks["fp16_acc16"]) == (165.2e12, 330.3e12)


def test_matmul_fraction_is_best_measured_over_peak() -> None:
    # Best of 271.2 (mean-of-100 search) and 267.9 TFLOPS over 312.
    assert load_accelerator("a100-sxm-80").matmul_fraction == pytest.approx(271.2 / 312)
    assert load_accelerator("v100-sxm2-32").matmul_fraction == pytest.approx(94.0 / 125)
    assert load_accelerator("tpu-v5p").matmul_fraction == 0  # nobody published one


def test_every_microbenchmark_is_of_a_catalogued_accelerator() -> None:
    assert {row["accelerator"] for row in microbenchmarks()} <= set(accelerator_ids())


def test_systolic_tiles_and_cores() -> None:
    assert load_accelerator("tpu-v5p").matmul_tile == 128
    assert load_accelerator("tpu-v6e").matmul_tile == 256
    assert load_accelerator("tpu-v4").cores_per_device == 2
    assert load_accelerator("tpu-v5e").cores_per_device == 1
    assert load_accelerator("trainium2").cores_per_device == 8


def test_provenance_has_source_and_date_for_every_value() -> None:
    values = accelerator_provenance("tpu-v4")
    assert values["bandwidth"].value == "1200 GB/s"
    assert values["bandwidth"].source == "google-tpu-v4-docs"
    assert values["visible_memory"].source == "xla-oom-messages"
    assert all(value.retrieved for value in values.values())


def test_assumed_values_say_so() -> None:
    assert accelerator_provenance("rtx-4070")["visible_memory"].basis == "assumed"


def test_host_memory_is_the_share_of_the_hosts_a_slice_has() -> None:
    # ct5p-hightpu-4t: 448 GB for 4 chips; 16 chips are 4 hosts.
    assert load_node("tpu-v5p", devices=16).host_memory_bytes == pytest.approx(4 * 448e9)
    # NVL72: 480 GB for each pair of GPUs.
    assert load_node("gb200", devices=64).host_memory_bytes == pytest.approx(32 * 480e9)


def test_peak_explained_by_units_operations_and_clock() -> None:
    # 108 multiprocessors x 2048 FLOP x 1410 MHz = 311.9 TFLOP/s
    tree = explain_peak("a100-sxm-80", "bf16").needs[0]
    assert [need.value for need in tree.needs] == [108, 2048, 1.41e9]
    assert tree.value == pytest.approx(311.87e12, rel=1e-4)


def test_systolic_peak_explained_by_its_arrays() -> None:
    # 8 arrays x 128 x 128 x 2 x 1.05 GHz = 275.25 TFLOP/s
    tree = explain_peak("tpu-v4", "bf16").needs[0]
    assert tree.value == pytest.approx(8 * 128 * 128 * 2 * 1.05e9)


def test_bandwidth_explained_by_bus_and_rate() -> None:
    # 384 bit x 21 Gb/s / 8 = 1008 GB/s
    tree = explain_bandwidth("rtx-4090")
    assert tree.value == tree.needs[0].value == 1008e9


def test_known_difference_is_told_with_the_peak() -> None:
    assert "1.62 GHz" in explain_peak("h100-pcie", "fp8").meaning


def test_peak_of_an_absent_dtype_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="fp8"):
        explain_peak("a100-sxm-80", "fp8")


def test_unknown_accelerator_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'h100-sxm'"):
        load_accelerator("h100-sxm5")
    with pytest.raises(UnknownNameError):
        load_accelerator("../secrets")


def test_run_as_published_keeps_its_nodes_and_network() -> None:
    cluster = cluster_as_run("a100-sxm-80", 384, 8, 6.25e9)
    assert (cluster.num_nodes, cluster.node.devices) == (48, 8)
    assert cluster.node.network_bandwidth == 6.25e9
    assert cluster_as_run("v100-sxm2-32", 64, 16).node.id == "dgx-2"
    assert cluster_as_run("tpu-v4", 24).torus == (2, 3, 4)


def test_h200_nvl_is_found_in_its_server_and_bridged() -> None:
    found = [system.id for system in systems_of("h200-nvl")]
    assert found[0] == "pcie-server"
    assert {"nvlink-pair", "nvlink-quad"} <= set(found)


def test_own_file_adds_an_accelerator(own: Path) -> None:
    copy_h100(own, **{'"81559 MiB"': '"100 GiB"'})
    assert load_accelerator("my-card").memory_bytes == 100 * GIB
    assert load_node("my-card").id == "hgx-h100"
    assert "my-card" in accelerator_ids()


def test_own_file_overrides_and_leaves_again(own: Path) -> None:
    path = copy_h100(own, **{'id = "my-card"': 'id = "rtx-4090"'})
    shutil.move(path, own / "accelerators" / "rtx-4090.toml")
    use_catalogue(own)
    assert load_accelerator("rtx-4090").family == "nvidia-hopper"
    use_catalogue(None)
    assert load_accelerator("rtx-4090").family == "nvidia-geforce"


def test_own_accelerator_without_a_system_stands_alone(own: Path) -> None:
    copy_h100(own, **{'default_system = "hgx-h100"\n': ""})
    node = load_node("my-card")
    assert (node.id, node.devices, node.topology) == ("single", 1, "single")


def test_catalogue_folder_from_the_environment(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_h100(own)
    monkeypatch.setenv("CHIPWISE_CATALOGUE", str(own))
    use_catalogue(None)
    assert "my-card" in accelerator_ids()
    monkeypatch.setenv("CHIPWISE_CATALOGUE", str(own / "absent"))
    use_catalogue(None)
    with pytest.raises(UsageError, match="absent"):
        accelerator_ids()


def test_absent_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        use_catalogue(tmp_path / "absent")


@pytest.mark.parametrize(
    ("replaced", "line_holds", "reason"),
    [
        ({'"3350 GB/s"': '"3350 furlongs"'}, "bandwidth", "unit 'furlongs'"),
        ({'value = "700 W", ': ""}, "tdp", "value, source and retrieved"),
        ({'kind = "gpu"': 'kind = "toaster"'}, "kind", "Input should be"),
        ({"tdp = {": "tpd = {"}, "tpd", "unknown field 'tpd'"),
        ({"purchasable = true": "purchasable = true\ncolour = 1"}, "colour", "unknown field"),
        ({'note = "boost': "note = boost"}, "note", "at line"),
        ({'"hgx-h100"': '"no-such"'}, "default_system", "no system 'no-such'"),
    ],
)
def test_broken_file_is_named_with_line_and_reason(
    own: Path, replaced: dict[str, str], line_holds: str, reason: str
) -> None:
    path = copy_h100(own, **replaced)
    with pytest.raises(DataFileError) as caught:
        load_node("my-card")
    line = caught.value.details["line"]
    assert isinstance(line, int)
    assert line_holds in path.read_text(encoding="utf-8").splitlines()[line - 1]
    assert f"{path}:{line}" in caught.value.message
    assert reason in caught.value.message


def test_missing_value_and_oversized_or_binary_files_are_named(own: Path) -> None:
    path = copy_h100(own, **{"\nbandwidth = {": "\n# bandwidth = {"})
    with pytest.raises(DataFileError, match="'bandwidth' is missing"):
        load_accelerator("my-card")
    path.write_bytes(b"#" * (2**20 + 1))
    use_catalogue(own)
    with pytest.raises(DataFileError, match="larger than 1 MiB"):
        load_accelerator("my-card")
    path.write_bytes(b"\xff\xfe")
    use_catalogue(own)
    with pytest.raises(DataFileError, match="not UTF-8"):
        load_accelerator("my-card")


def test_a_file_that_is_no_plain_file_is_named(own: Path) -> None:
    path = own / "accelerators" / "my-card.toml"
    os.mkfifo(path)
    use_catalogue(own)
    with pytest.raises(DataFileError, match=r"my-card\.toml: no regular file"):
        load_accelerator("my-card")
    path.unlink()
    path.write_text("a = " + "[" * 20_000, encoding="utf-8")
    use_catalogue(own)
    with pytest.raises(DataFileError, match="nested too deeply"):
        load_accelerator("my-card")


@pytest.mark.parametrize("meant", ["5", "['h100-sxm', 3]", "'no-such'"])
def test_an_alias_of_no_accelerator_is_named_with_its_line(own: Path, meant: str) -> None:
    (own / "aliases.toml").write_text(f"# mine\nmine = {meant}\n", encoding="utf-8")
    use_catalogue(own)
    with pytest.raises(DataFileError, match=r"aliases\.toml:2: 'mine' stands for"):
        resolve_accelerator("mine")


def test_a_home_folder_that_there_is_not_is_no_folder() -> None:
    with pytest.raises(UsageError, match="does not exist"):
        use_catalogue(Path("~no-such-person/catalogue"))
