"""The GPUs that CUDA_VISIBLE_DEVICES names decide, not all GPUs of the machine."""

from __future__ import annotations

import pytest

from paceline.engine.launch.visible_gpus import visible_capabilities

VOLTA_AND_HOPPER = "0, GPU-aaaa-1, 7.0\n1, GPU-bbbb-2, 9.0\n"
TWO_HOPPERS = "0, GPU-aaaa-1, 9.0\n1, GPU-bbbb-2, 9.0\n"
BOTH = ((7, 0), (9, 0))


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
