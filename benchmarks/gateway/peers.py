"""Install the other gateways, each in its own virtual environment.

An environment is created once from the lock in this folder and reused until the lock changes.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

_LOCKS = Path(__file__).resolve().parent


def environment_of(peer: str, cache: Path) -> Path:
    """The folder of the peer's commands, installed on first use, which takes up to two minutes.

    `cache` holds the environments. Raises CalledProcessError when pip fails.
    """
    lock = _LOCKS / f"{peer}.lock"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    folder = cache.resolve() / f"{peer}-{digest}"
    stamp = folder / "installed"
    if not stamp.exists():
        print(f"installing {peer} into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--requirement", str(lock)], check=True)
        stamp.touch()
    return folder / "bin"


def version_of(peer: str) -> str:
    """The version that the lock pins."""
    for line in (_LOCKS / f"{peer}.lock").read_text().splitlines():
        name, _, version = line.partition("==")
        if name == peer:
            return version
    raise ValueError(f"{peer}.lock does not pin {peer}")
