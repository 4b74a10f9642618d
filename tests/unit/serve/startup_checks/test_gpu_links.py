"""The matrix of `nvidia-smi topo -m`, in the layouts of drivers of several years."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.runtime.serve.startup_checks.gpu_links import parse_links

TOPOLOGIES = Path(__file__).parent / "topologies"


def links_of(machine: str) -> dict[tuple[int, int], str]:
    links = parse_links((TOPOLOGIES / f"{machine}.txt").read_text(encoding="utf-8"))
    assert links is not None
    return links


def test_gpus_behind_switches_are_all_connected_by_nvlink() -> None:
    """The head line is underlined with escape sequences; nine adapters have columns too."""
    links = links_of("b300-x8")
    assert len(links) == 8 * 7
    assert set(links.values()) == {"NV18"}


def test_two_gpus_without_nvlink() -> None:
    assert links_of("rtx5090-x2") == {(0, 1): "PHB", (1, 0): "PHB"}


def test_nvlink_within_pairs_only() -> None:
    links = links_of("a100-pcie-x4-in-pairs")
    assert (links[0, 1], links[2, 3]) == ("NV12", "NV12")
    assert (links[0, 2], links[1, 3]) == ("SYS", "SYS")


def test_an_old_driver_aligns_with_spaces_and_names_adapters() -> None:
    links = links_of("p100-x4-driver-of-2017")
    assert (links[0, 1], links[1, 2], links[3, 0]) == ("PIX", "PHB", "SOC")
    assert len(links) == 4 * 3


def test_one_gpu_has_no_links() -> None:
    assert links_of("gb10") == {}


@pytest.mark.parametrize(
    "text", ["", "NVIDIA-SMI has failed because it could not communicate with the driver", "GPU0 X"]
)
def test_any_other_text_is_no_matrix(text: str) -> None:
    assert parse_links(text) is None
