"""The GPUs that CUDA_VISIBLE_DEVICES names decide, not all GPUs of the machine."""

from __future__ import annotations

import pytest

from paceline.runtime.engine.launch import visible_gpus as listed
from paceline.runtime.engine.launch.visible_gpus import Capability, Gpu, visible_gpus

VOLTA_AND_HOPPER = "0, GPU-aaaa-1, 7.0\n1, GPU-bbbb-2, 9.0\n"
TWO_HOPPERS = "0, GPU-aaaa-1, 9.0\n1, GPU-bbbb-2, 9.0\n"
BOTH = ((7, 0), (9, 0))
TWO_L4 = """\
0, GPU-aaaa-1, 8.9, 23034, 22563, 580.65.06
1, GPU-bbbb-2, 8.9, 23034, 120, 580.65.06
"""
MIB = 1024**2


def visible_capabilities(listing: str, environ: dict[str, str]) -> tuple[Capability, ...]:
    return listed.visible_capabilities(visible_gpus(listing, environ))


def test_without_a_choice_all_gpus_count_once() -> None:
    assert visible_capabilities(VOLTA_AND_HOPPER, {}) == BOTH
    assert visible_capabilities(TWO_HOPPERS, {}) == ((9, 0),)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("GPU-bbbb-2", ((9, 0),)),
        ("GPU-b", ((9, 0),)),
        ("GPU-bbbb-2, GPU-aaaa-1", BOTH),
        ("", ()),
        ("GPU-", BOTH),
        ("MIG-1234", BOTH),
    ],
)
def test_gpus_are_chosen_by_the_beginning_of_their_uuid(
    chosen: str, expected: tuple[tuple[int, int], ...]
) -> None:
    assert visible_capabilities(VOLTA_AND_HOPPER, {"CUDA_VISIBLE_DEVICES": chosen}) == expected


def test_numbers_choose_only_in_the_order_of_the_pci_bus() -> None:
    """By default CUDA's device 0 is the fastest GPU, which the list may number otherwise."""
    chosen = {"CUDA_VISIBLE_DEVICES": "1"}
    in_pci_order = {**chosen, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert visible_capabilities(VOLTA_AND_HOPPER, in_pci_order) == ((9, 0),)
    assert visible_capabilities(VOLTA_AND_HOPPER, chosen) == BOTH
    assert visible_capabilities(TWO_HOPPERS, chosen) == ((9, 0),)


@pytest.mark.parametrize("listing", ["", "NVIDIA-SMI has failed", "0, GPU-aaaa-1, [N/A]\n"])
def test_a_list_without_capabilities_is_empty(listing: str) -> None:
    assert visible_capabilities(listing, {}) == ()


def test_memory_and_driver_are_read() -> None:
    assert visible_gpus(TWO_L4, {})[1] == Gpu(
        1, "GPU-bbbb-2", (8, 9), 23034 * MIB, 120 * MIB, "580.65.06"
    )


def test_memory_that_the_driver_does_not_state_is_unknown() -> None:
    """As on a GB10, whose GPU shares the memory of the machine."""
    (gpu,) = visible_gpus("0, GPU-cccc-3, 12.1, [N/A], [N/A], 580.142\n", {})
    assert (gpu.memory_bytes, gpu.free_bytes, gpu.driver) == (None, None, "580.142")


def test_numbers_choose_among_equal_gpus_in_the_given_order() -> None:
    assert [gpu.index for gpu in visible_gpus(TWO_L4, {"CUDA_VISIBLE_DEVICES": "1,0"})] == [1, 0]
    assert [gpu.index for gpu in visible_gpus(TWO_L4, {"CUDA_VISIBLE_DEVICES": "1"})] == [1]


@pytest.mark.parametrize(
    ("listing", "environ", "expected"),
    [
        (TWO_HOPPERS, {}, [0, 1]),
        (TWO_HOPPERS, {"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        (VOLTA_AND_HOPPER, {"CUDA_VISIBLE_DEVICES": "GPU-b"}, [1]),
        (VOLTA_AND_HOPPER, {"CUDA_VISIBLE_DEVICES": "1"}, []),
        (TWO_HOPPERS, {"CUDA_VISIBLE_DEVICES": "MIG-1234"}, []),
        (TWO_HOPPERS, {"CUDA_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_only_gpus_with_a_clear_number_are_assigned(
    listing: str, environ: dict[str, str], expected: list[int]
) -> None:
    """Of two different GPUs, CUDA's number 1 may be the first of the list."""
    assert [gpu.index for gpu in listed.assignable_gpus(listing, environ)] == expected
