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
from pathlib import Path

from paceline.foundation.recording.stored_costs import (
    UNREADABLE,
    Identity,
    as_stored,
    document_of,
    read,
)
from paceline.foundation.recording.stored_costs import StoredCosts as StoredCosts

logger = logging.getLogger("vllm.paceline.calibration")

_MAX_FILES = 32
_DIGEST_CHARS = 24


class CostStore:
    """The tables in one folder, which is created when the first is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, identity: Identity) -> StoredCosts | None:
        """Return the stored table; None, with a warning, if its file is unreadable or foreign."""
        path = self._path(identity)
        try:
            found, costs = read(path)
            if found != as_stored(identity):
                raise ValueError("it is of another engine or machine")
            return costs
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            logger.warning("Costs: %s is ignored: %r", path, error)
            return None

    def save(self, identity: Identity, costs: StoredCosts) -> None:
        """Write the table and remove the oldest files beyond 32. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=".", suffix=".part")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(document_of(identity, costs), file, indent=1)
            os.replace(name, self._path(identity))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        self._remove_oldest()

    def _path(self, identity: Identity) -> Path:
        text = json.dumps(as_stored(identity), sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]}.json"

    def _remove_oldest(self) -> None:
        ages: list[tuple[float, Path]] = []
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError):  # another engine may remove it at the same time
                ages.append((path.stat().st_mtime, path))
        for _, path in sorted(ages, reverse=True)[_MAX_FILES:]:
            with contextlib.suppress(OSError):
                path.unlink()
