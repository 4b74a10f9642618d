"""Find prometheus and promtool: on the path, or where `make` unpacks them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

_UNPACKED = Path(__file__).parents[1] / ".clients" / "prometheus" / "usr" / "bin"


def find_program(name: str) -> str:
    """The path of `prometheus` or `promtool`.

    Without it the test is skipped. In CI, and for root, who can have it from `make`, it fails.
    """
    found = shutil.which(name) or shutil.which(name, path=str(_UNPACKED))
    if found is not None:
        return found
    missing = (
        f"{name} is missing: run CLIENTS=.clients scripts/install-prometheus.sh as root, or put "
        "the programs of Prometheus on the path"
    )
    if os.environ.get("CI") or os.geteuid() == 0:
        pytest.fail(missing)
    pytest.skip(missing)
