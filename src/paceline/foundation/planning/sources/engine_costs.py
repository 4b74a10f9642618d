"""Find the table of step costs that an engine of this machine measured for a planned model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from paceline.foundation.capacity.cost_table import CostTable
from paceline.foundation.planning.values import Drafter, PlannedModel
from paceline.foundation.recording.stored_costs import Identity, StoredCosts

_SNAPSHOT = re.compile(r"models--(.+?)--(.+?)/snapshots/")
"""In the path of a model that the hub's client stored."""


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """A stored table, and the engine that it is of."""

    table: CostTable
    measured_on: str
    tensor_parallel: int


def find_costs(
    stored: Iterable[tuple[Identity, StoredCosts]],
    model: PlannedModel,
    drafter: Drafter,
    *,
    device: str,
) -> EngineCosts | None:
    """The first table of `model` on `device`, with `drafter` if it drafts; None without one."""
    if model.converted_to is not None:
        return None
    for identity, costs in stored:
        if identity.get("device") != device or not _is_of(identity.get("target"), model):
            continue
        if drafter.kind != "none" and not _drafts(identity, drafter):
            continue
        return EngineCosts(
            costs.table,
            costs.measured_on,
            int(identity.get("tensor_parallel_size", 1)),
        )
    return None


def _drafts(identity: Identity, drafter: Drafter) -> bool:
    if drafter.model is not None:
        return _is_of(identity.get("draft"), drafter.model)
    return str(identity.get("method", "")).startswith(drafter.kind)


def _is_of(found: object, model: PlannedModel) -> bool:
    """Whether an entry of an identity is this model, in this number format."""
    if not isinstance(found, Mapping):
        return False
    dtype = str(found.get("dtype")).removeprefix("torch.")
    is_quantized = found.get("quantization") is not None
    return (
        dtype == model.weight_format.dtype
        and is_quantized == model.weight_format.is_quantized
        and bool(_names(str(found.get("model"))) & _names(model.name))
    )


def _names(model: str) -> set[str]:
    """The names of a model: as given, its folder, and its name on the hub."""
    path = Path(model)
    folder = path.parent if path.name == "config.json" else path
    names = {model}
    if folder.is_dir():
        names.add(str(folder.resolve()))
    snapshot = _SNAPSHOT.search(model)
    if snapshot is not None:
        names.add("/".join(snapshot.groups()))
    return names
