"""Keep cost tables on disk: one JSON file per engine and machine, in a folder of bounded size.

A table that cannot be read, or belongs to another identity, counts as absent. Files are written
whole or not at all, so that engines that start at the same time may share the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.governor.costs.cost_table import CostTable, dict_of, table_from

logger = logging.getLogger("vllm.paceline.calibration")

SCHEMA_VERSION = 1
"""Raised when a stored table means something else than before; older files then count as absent."""
_MAX_FILES = 32
_MAX_FILE_BYTES = 1_000_000
_DIGEST_CHARS = 24

Identity = Mapping[str, Any]
"""What a table belongs to, as JSON values."""


@dataclass(frozen=True, slots=True)
class StoredCosts:
    """A table, and the day it was measured."""

    table: CostTable
    measured_on: str
    """As 2026-11-29."""


class CostStore:
    """The tables in one folder, which is created when the first is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, identity: Identity) -> StoredCosts | None:
        """Return the stored table; None, with a warning, if its file is unreadable or foreign."""
        path = self._path(identity)
        try:
            with path.open("rb") as file:
                document = json.loads(file.read(_MAX_FILE_BYTES))
            if document["identity"] != _as_json(identity):
                raise ValueError("it is of another engine or machine")
            return StoredCosts(table_from(document["table"]), str(document["measured_on"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            logger.warning("Costs: %s is ignored: %r", path, error)
            return None

    def save(self, identity: Identity, costs: StoredCosts) -> None:
        """Write the table and remove the oldest files beyond 32. Raises OSError."""
        document = {
            "identity": _as_json(identity),
            "measured_on": costs.measured_on,
            "table": dict_of(costs.table),
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=".", suffix=".part")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
            os.replace(name, self._path(identity))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        self._remove_oldest()

    def _path(self, identity: Identity) -> Path:
        text = json.dumps(_as_json(identity), sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]}.json"

    def _remove_oldest(self) -> None:
        ages: list[tuple[float, Path]] = []
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError):  # another engine may remove it at the same time
                ages.append((path.stat().st_mtime, path))
        for _, path in sorted(ages, reverse=True)[_MAX_FILES:]:
            with contextlib.suppress(OSError):
                path.unlink()


def _as_json(identity: Identity) -> Any:
    """The identity as it is read back: tuples become lists."""
    return json.loads(json.dumps({**identity, "schema_version": SCHEMA_VERSION}))
