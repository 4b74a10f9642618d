"""Write the state of a training atomically: after a crash, the file is the old one or the new."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Replace `path` by the state; OSError leaves the old file and no scratch file."""
    scratch = path.with_suffix(".tmp")
    try:
        with scratch.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def load_state(path: Path) -> dict[str, Any]:
    """Read what `save_state` wrote. Tensors are on the CPU."""
    state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    return state
