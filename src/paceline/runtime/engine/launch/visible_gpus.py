"""Find the GPUs that CUDA shows to an engine, and their compute capabilities.

A pure decision from the list of `nvidia-smi` and the variables of the environment. nvidia-smi
lists all GPUs of the machine and numbers them in the order of the PCI bus; CUDA numbers the fastest
first unless CUDA_DEVICE_ORDER is PCI_BUS_ID.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Capability = tuple[int, int]
"""Major and minor number of a CUDA compute capability."""

QUERY = (
    "nvidia-smi",
    "--query-gpu=index,uuid,compute_cap,memory.total,memory.free,driver_version",
    "--format=csv,noheader,nounits",
)
"""The command whose output `visible_gpus` takes."""

_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as nvidia-smi lists it."""

    index: int
    """In the order of the PCI bus."""
    uuid: str
    capability: Capability
    memory_bytes: int | None = None
    """None where the driver does not say, as on GPUs that share the machine's memory."""
    free_bytes: int | None = None
    driver: str = ""
    """Version of the driver; empty where it is not known."""


def visible_gpus(listing: str, environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the visible GPUs in CUDA's order, as far as it is known; empty if none is known.

    Where an entry of CUDA_VISIBLE_DEVICES cannot be assigned to one GPU (a number while CUDA's
    order may not be that of the list, or a MIG instance), all GPUs of the machine count as visible.
    """
    gpus = _listed(listing)
    chosen = _chosen(gpus, environ)
    return tuple(gpus if chosen is None else chosen)


def assignable_gpus(listing: str, environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the visible GPUs that engines can be given, each by its number.

    Empty where an entry of CUDA_VISIBLE_DEVICES cannot be assigned to one GPU.
    """
    return tuple(_chosen(_listed(listing), environ) or ())


def visible_capabilities(gpus: Sequence[Gpu]) -> tuple[Capability, ...]:
    """Return the different capabilities of these GPUs, lowest first."""
    return tuple(sorted({gpu.capability for gpu in gpus}))


def are_alike(gpus: Sequence[Gpu]) -> bool:
    """Whether all have the same capability and memory: CUDA then numbers them like the list."""
    return len({(gpu.capability, gpu.memory_bytes) for gpu in gpus}) <= 1


def smallest_used(gpus: tuple[Gpu, ...], number: int) -> Gpu | None:
    """The smallest of the `number` largest GPUs, of which CUDA may use the engine's; else None."""
    known = sorted(
        (gpu for gpu in gpus if gpu.memory_bytes is not None),
        key=lambda gpu: gpu.memory_bytes or 0,
        reverse=True,
    )
    return known[min(number, len(known)) - 1] if known else None


def share_of_gpus(
    gpus: Sequence[Gpu], replica: int, num_replicas: int, num_each: int
) -> tuple[Gpu, ...]:
    """Return the GPUs of one of several engines on this machine; empty if they share.

    They do where there are too few, and where GPUs differ: an engine may need the larger one.
    Those beside each other on the PCI bus stay together: they are the most likely to be linked.
    """
    if len(gpus) < num_replicas * num_each or not are_alike(gpus):
        return ()
    by_index = sorted(gpus, key=lambda gpu: gpu.index)
    return tuple(by_index[replica * num_each : (replica + 1) * num_each])


def show_only(gpus: Sequence[Gpu]) -> Mapping[str, str]:
    """Return the environment in which CUDA shows these GPUs; empty for none, which shows all.

    By number, not by UUID: the numbers of the list are those of the PCI bus.
    """
    if not gpus:
        return {}
    numbers = ",".join(str(gpu.index) for gpu in gpus)
    return {"CUDA_VISIBLE_DEVICES": numbers, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def has_gpus_of_its_own(environment: Mapping[str, str]) -> bool:
    """Whether an engine's environment comes from `show_only`."""
    return "CUDA_VISIBLE_DEVICES" in environment


def _listed(listing: str) -> list[Gpu]:
    return [gpu for gpu in map(_parse_gpu, listing.splitlines()) if gpu is not None]


def _chosen(gpus: list[Gpu], environ: Mapping[str, str]) -> list[Gpu] | None:
    """All without CUDA_VISIBLE_DEVICES, else those that it names; None if that is not clear."""
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return gpus
    has_pci_order = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or are_alike(gpus)
    found: list[Gpu] = []
    for entry in (part.strip() for part in chosen.split(",") if part.strip()):
        if entry.isdigit():
            matches = [gpu for gpu in gpus if has_pci_order and gpu.index == int(entry)]
        else:
            matches = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
        if len(matches) != 1:
            return None
        found += matches
    return found


def _parse_gpu(line: str) -> Gpu | None:
    """Return the GPU of a line such as "0, GPU-5f1c…, 9.0, 81559, 81000, 580.65.06"; else None.

    What follows the capability may be absent or "[N/A]".
    """
    parts = [part.strip() for part in line.split(",")]
    index, uuid, capability, total, free, driver = [*parts, *[""] * 6][:6]
    major, _, minor = capability.partition(".")
    if not (index.isdigit() and major.isdigit() and minor.isdigit()):
        return None
    return Gpu(
        index=int(index),
        uuid=uuid,
        capability=(int(major), int(minor)),
        memory_bytes=_bytes(total),
        free_bytes=_bytes(free),
        driver=driver if driver[:1].isdigit() else "",
    )


def _bytes(mib: str) -> int | None:
    return int(mib) * _MIB if mib.isdigit() else None
