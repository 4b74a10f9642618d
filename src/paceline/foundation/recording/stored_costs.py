"""Cost tables on disk: the form of a file, and where the files are.

`engine.calibration.store` writes them, one for each engine and machine; `paceline plan` reads those
of this machine. A file that cannot be read, or that another release wrote, counts as absent.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from paceline.foundation.capacity.cost_table import CostTable
from paceline.foundation.files.user_cache import user_cache
from paceline.foundation.machine.cpu_info import read_cpu_model

SCHEMA_VERSION = 2
"""Raised when a stored table means something else than before; older files then count as absent."""
_MAX_FILE_BYTES = 1_000_000

Identity = Mapping[str, Any]
"""What a table belongs to, as JSON values."""

UNREADABLE = (OSError, ValueError, TypeError, KeyError, AttributeError)
"""What `read` raises for a file that holds no table."""


@dataclass(frozen=True, slots=True)
class StoredCosts:
    """A table, and the day it was measured."""

    table: CostTable
    measured_on: str
    """As 2026-11-29."""


def read(path: Path) -> tuple[Identity, StoredCosts]:
    """The content of a file. Raises one of `UNREADABLE`."""
    with path.open("rb") as file:
        document = json.loads(file.read(_MAX_FILE_BYTES))
    costs = StoredCosts(msgspec.convert(document["table"], CostTable), str(document["measured_on"]))
    return document["identity"], costs


def document_of(identity: Identity, costs: StoredCosts) -> dict[str, Any]:
    """What a file holds, as JSON values."""
    return {
        "identity": as_stored(identity),
        "measured_on": costs.measured_on,
        "table": asdict(costs.table),
    }


def as_stored(identity: Identity) -> Any:
    """The identity as it is read back: tuples become lists."""
    return json.loads(json.dumps({**identity, "schema_version": SCHEMA_VERSION}))


def read_all(folder: Path) -> Iterator[tuple[Identity, StoredCosts]]:
    """The tables in a folder, the newest first; none where it is missing."""
    found: list[tuple[float, Identity, StoredCosts]] = []
    for path in folder.glob("*.json"):
        try:
            identity, costs = read(path)
            if identity["schema_version"] == SCHEMA_VERSION:
                found.append((path.stat().st_mtime, identity, costs))
        except UNREADABLE:
            continue  # of another release, or removed meanwhile
    for _, identity, costs in sorted(found, key=lambda one: -one[0]):
        yield identity, costs


def costs_folder(environ: Mapping[str, str]) -> str:
    """The folder that an environment names: PACELINE_COSTS_FOLDER, which may be empty for none, or
    one below the user's cache folder; empty where that is unknown or not absolute."""
    given = environ.get("PACELINE_COSTS_FOLDER")
    if given is not None:
        return given
    cache = user_cache(environ)
    return "" if cache is None else str(cache / "costs")


def cpu_name() -> str:
    """The processor of this machine, as in the identity of a table."""
    return f"{read_cpu_model()} ({platform.machine()})"
