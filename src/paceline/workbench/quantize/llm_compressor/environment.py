"""The environment of llm-compressor: created once, reused while its requirements are the same.

The folder is named after the digest of the requirements. A marker is written last: a folder without
it is incomplete, and is completed.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path

from paceline.foundation.quantized.errors import QuantizeError

_MARKER = "paceline-environment.json"
_FILE = "requirements.txt"
_LOG_LINES = 12
_PACKAGE = re.compile(r"^(?:Collecting|Downloading) (\S+)")
_TORCH = re.compile(r"^torch==\S+$", re.MULTILINE)
_CPU_BUILD = "+cpu"
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""Has the CPU builds of torch. What PyPI calls by the same version is a CUDA build with gigabytes
of NVIDIA's libraries."""

OnStep = Callable[[str], None]
"""Gets what is being done, in words."""


def default_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the environment, in the user's cache."""
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "paceline" / f"llm-compressor-{_digest()[:12]}"


def python_of(folder: Path) -> Path:
    """Return the interpreter of the environment."""
    return folder / "bin" / "python"


def is_complete(folder: Path) -> bool:
    """Return whether the environment has what the requirements say."""
    try:
        marker = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(marker, dict) and marker.get("requirements") == _digest()


def create(folder: Path, on_step: OnStep) -> None:
    """Create or complete the environment; one process at a time, others wait.

    Gets the CPU build of torch where Paceline runs on one. Never touches the environment that
    Paceline runs in. Raises QuantizeError with pip's last lines.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if is_complete(folder):
            return
        if not python_of(folder).exists():
            on_step("creating the environment of llm-compressor")
            run_shown([sys.executable, "-m", "venv", str(folder)], on_step)
        pip = [str(python_of(folder)), "-m", "pip", "install", "--disable-pip-version-check"]
        if importlib.metadata.version("torch").endswith(_CPU_BUILD):
            _install_cpu_torch(pip, on_step)
        with resources.as_file(resources.files(__package__) / _FILE) as file:
            run_shown([*pip, "--requirement", str(file)], on_step)
        marker = json.dumps({"requirements": _digest()})
        (folder / _MARKER).write_text(marker + "\n", encoding="utf-8")


def _install_cpu_torch(pip: list[str], on_step: OnStep) -> None:
    """Ask pip's configured indexes first: they may be all that can be reached."""
    [pinned] = _TORCH.findall(_requirements())
    command = [*pip, "--no-deps", pinned + _CPU_BUILD]
    try:
        run_shown(command, on_step)
    except QuantizeError:
        run_shown([*command, "--index-url", _CPU_INDEX], on_step)


def run_shown(command: list[str], on_step: OnStep) -> None:
    """Run pip or venv, and report the packages. Raises QuantizeError with the last lines."""
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines = [*lines, line.rstrip()][-_LOG_LINES:]
            found = _PACKAGE.match(line.strip())
            if found is not None:
                on_step(f"installing {found[1]}")
    if process.returncode != 0:
        last = "\n".join(lines)
        raise QuantizeError(
            f"the environment of llm-compressor could not be made:\n{last}\n"
            "Use --backend own, which needs none"
        )


def _requirements() -> str:
    return (resources.files(__package__) / _FILE).read_text(encoding="utf-8")


def _digest() -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return hashlib.sha256(f"{_requirements()}\npython {version}".encode()).hexdigest()
