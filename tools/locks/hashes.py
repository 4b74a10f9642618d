"""Write into each lock the hashes of the wheels that its pins resolve to.

    PYTHONPATH=tools .venv/bin/python -m locks.hashes requirements/*.lock

For every pin, pip resolves the x86-64 Linux wheel of CPython 3.11, 3.12 and 3.13, so a pin without
a wheel for one of them fails here, not on a user's machine. Nothing is installed. The comments and
the order of the lock are kept. Pins with a local version (torch's CPU build) have no hash: they
come from an index of their own, see `scripts/install.sh`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
SOURCE_ONLY = frozenset({"arctic-inference"})
"""Projects without wheels; resolved as the running Python would build them."""


def main(locks: list[str]) -> None:
    """Rewrite each lock in place."""
    for lock in locks:
        path = Path(lock)
        pins, lines = read_lock(path.read_text())
        hashes: dict[str, set[str]] = {}
        for python in PYTHONS:
            for name, digest in resolve(pins, python).items():
                hashes.setdefault(name, set()).add(digest)
            print(f"{lock}: {len(pins)} pins resolve for CPython {python}", file=sys.stderr)
        path.write_text(render_lock(lines, hashes))


def read_lock(text: str) -> tuple[list[str], list[str]]:
    """The pins to be hashed, and all lines without the hashes of an earlier run."""
    lines = [
        line.removesuffix(" \\") for line in text.splitlines() if not line.startswith("    --hash=")
    ]
    pins = [match[0] for line in lines if (match := _PIN.match(line)) and "+" not in match[2]]
    return pins, lines


def render_lock(lines: list[str], hashes: dict[str, set[str]]) -> str:
    """The lock with the hashes after each pin that has some; ValueError for a pin without any."""
    rendered = []
    for line in lines:
        match = _PIN.match(line)
        if match and "+" not in match[2]:
            found = sorted(hashes.get(_normalise(match[1]), ()))
            if not found:
                raise ValueError(f"{match[0]} has no hash")
            line = " \\\n".join([line, *(f"    --hash=sha256:{digest}" for digest in found)])
        rendered.append(line)
    return "\n".join(rendered) + "\n"


def resolve(pins: list[str], python: str) -> dict[str, str]:
    """SHA-256 by project name, of the file that pip would install for this Python."""
    wheels = [pin for pin in pins if _normalise(pin.split("==")[0]) not in SOURCE_ONLY]
    sources = [pin for pin in pins if pin not in wheels]
    found: dict[str, str] = {}
    if wheels:
        other = ["--python-version", python, "--only-binary=:all:", "--target", "/nonexistent"]
        found |= _report(wheels, other)
    if sources:
        found |= _report(sources, ["--no-build-isolation"])
    return found


def _report(pins: list[str], options: list[str]) -> dict[str, str]:
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"),
                *("--ignore-installed", "--report", report.name, *options, *pins),
            ],
            check=True,
        )
        installed = json.loads(Path(report.name).read_text())["install"]
    return {
        _normalise(entry["metadata"]["name"]): entry["download_info"]["archive_info"]["hashes"][
            "sha256"
        ]
        for entry in installed
    }


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main(sys.argv[1:])
