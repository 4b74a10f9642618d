"""Find the compute capabilities of the GPUs that CUDA shows to an engine.

A pure decision from the list of `nvidia-smi` and the variables of the environment. nvidia-smi
lists all GPUs of the machine and numbers them in the order of the PCI bus; CUDA numbers the fastest
first unless CUDA_DEVICE_ORDER is PCI_BUS_ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Capability = tuple[int, int]
"""Major and minor number of a CUDA compute capability."""

QUERY = ("nvidia-smi", "--query-gpu=index,uuid,compute_cap", "--format=csv,noheader")
"""The command whose output `visible_capabilities` takes."""


@dataclass(frozen=True, slots=True)
class _Gpu:
    index: str
    uuid: str
    capability: Capability


def visible_capabilities(listing: str, environ: Mapping[str, str]) -> tuple[Capability, ...]:
    """Return the different capabilities of the visible GPUs, lowest first; empty if none is known.

    Where an entry of CUDA_VISIBLE_DEVICES cannot be assigned to one GPU (a number while CUDA's
    order is not that of the list, or a MIG instance), all GPUs of the machine count as visible.
    """
    gpus = [gpu for gpu in map(_parse_gpu, listing.splitlines()) if gpu is not None]
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        has_pci_order = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
        gpus = _choose(gpus, chosen, has_pci_order)
    return tuple(sorted({gpu.capability for gpu in gpus}))


def _choose(gpus: list[_Gpu], chosen: str, has_pci_order: bool) -> list[_Gpu]:
    found: list[_Gpu] = []
    for entry in (part.strip() for part in chosen.split(",") if part.strip()):
        if entry.isdigit():
            matches = [gpu for gpu in gpus if has_pci_order and gpu.index == entry]
        else:
            matches = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
        if len(matches) != 1:
            return gpus
        found += matches
    return found


def _parse_gpu(line: str) -> _Gpu | None:
    """Return the GPU of a line such as "0, GPU-5f1c…, 9.0"; None for any other line."""
    index, _, rest = line.partition(",")
    uuid, _, capability = rest.partition(",")
    major, _, minor = capability.strip().partition(".")
    if not (major.isdigit() and minor.isdigit()):
        return None
    return _Gpu(index.strip(), uuid.strip(), (int(major), int(minor)))
