"""Find a JDK: on the path, or where `make` unpacks it."""

from __future__ import annotations

import shutil
from pathlib import Path

from missing_program import skip_or_fail

_UNPACKED = Path(__file__).parents[1] / ".clients" / "jdk" / "usr" / "lib" / "jvm"
_MISSING = (
    "a JDK is missing: run CLIENTS=.clients scripts/install-jdk.sh as root on Debian or Ubuntu, or "
    "put java and javac on the path"
)


def find_jdk(name: str) -> str:
    """The path of `java` or `javac`.

    Without it the test ends (`skip_or_fail`).
    """
    found = shutil.which("javac") and shutil.which(name)
    for program in sorted(_UNPACKED.glob(f"java-*/bin/{name}")):
        found = found or str(program)
    if found:
        return found
    skip_or_fail(_MISSING)
