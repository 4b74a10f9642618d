"""Read what Linux lists of the processor in /proc/cpuinfo. The first of several counts."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")


def read_cpu_flags(proc: Path = PROC) -> frozenset[str]:
    """Its flags; their line is `flags` on x86 and `Features` on Arm. Empty if it has none, or if
    the file cannot be read."""
    return frozenset(_read_value(proc, "flags", "Features").split())


def read_cpu_model(proc: Path = PROC) -> str:
    """Its name, as `Intel(R) Xeon(R) …`; empty if it has none, as on Arm, or if the file cannot be
    read."""
    return _read_value(proc, "model name")


def _read_value(proc: Path, *names: str) -> str:
    """The value of the first line with one of these names."""
    try:
        text = (proc / "cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in names:
            return value.strip()
    return ""
