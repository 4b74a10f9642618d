"""Find prometheus and promtool: on the path, or where `make` unpacks them."""

from __future__ import annotations

import shutil
from pathlib import Path

from missing_program import skip_or_fail

_UNPACKED = Path(__file__).parents[1] / ".clients" / "prometheus" / "usr" / "bin"


def find_program(name: str) -> str:
    """The path of `prometheus` or `promtool`.

    Without it the test ends (`skip_or_fail`).
    """
    found = shutil.which(name) or shutil.which(name, path=str(_UNPACKED))
    if found is not None:
        return found
    skip_or_fail(
        f"{name} is missing: run CLIENTS=.clients scripts/install-prometheus.sh as root, or put "
        "the programs of Prometheus on the path"
    )
