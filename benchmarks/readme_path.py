"""The path of a stranger through the README's section "Start": its commands, as they are shown.

The commands are run, not copied here, so that the README is what is measured. What each step needs
to be recognised is in `_STEPS`. Any other command, a missing one or another order raises
`ReadmeChanged`: a step that the README gains must not be left out of the measurement.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from documented_commands.pages import blocks_of, commands_of_block
from documented_commands.shell import logical_lines

_SECTION = re.compile(r"^## Start\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
_STEPS = {
    "serve": r"make serve",
    "ask": r"curl -N (?P<url>http://\S+/v1/chat/completions) .*\"stream\": true.*",
    "measure": r"\.venv/bin/paceline bench run .*--html (?P<report>\S+)",
    "diagnose": r"\.venv/bin/paceline doctor",
}
"""In the order of the README."""
_AFTERWARDS = ("make test",)
"""What the section shows and the path does not have: the suite is for contributors."""
_READY = re.compile(r"[Ww]hen\s+it\s+prints\s+`([^`]+)`")
_DASHBOARD = re.compile(r"[Oo]pen\s+`(http://[^`]+)`")


class ReadmeChanged(Exception):
    """The README shows another path than this module expects. The message says where."""


@dataclass(frozen=True, slots=True)
class ReadmePath:
    """Shell commands and what to wait for, as the README shows them."""

    serve: str
    ready_text: str
    """What the server prints when it serves."""
    ask: str
    """Streams an answer."""
    data_url: str
    """Of the request."""
    dashboard_url: str
    measure: str
    report: str
    """The file that `measure` writes, from the root of the clone."""
    diagnose: str


def read_path(text: str) -> ReadmePath:
    """The path in the text of a README. Raises `ReadmeChanged`."""
    section = _SECTION.search(text)
    if section is None:
        raise ReadmeChanged('there is no section "## Start" that another one follows')
    commands = [line for line in _commands(section[1]) if line not in _AFTERWARDS]
    names, found = list(_STEPS), {}
    for number, command in enumerate(commands):
        name = names[number] if number < len(names) else None
        match = name and re.fullmatch(_STEPS[name], command, re.DOTALL)
        if not match:
            wanted = f"where `{name}` was expected" if name else "after the last step"
            raise ReadmeChanged(
                f"the README shows {command!r} {wanted}: add the step to benchmarks/readme_path.py"
            )
        found[name] = match
    if missing := names[len(commands) :]:
        raise ReadmeChanged(f"the README has no command for: {', '.join(missing)}")
    return ReadmePath(
        serve=found["serve"][0],
        ready_text=_quoted(_READY, section[1], "what the server prints when it serves"),
        ask=found["ask"][0],
        data_url=found["ask"]["url"],
        dashboard_url=_quoted(_DASHBOARD, section[1], "the URL of the dashboard"),
        measure=found["measure"][0],
        report=found["measure"]["report"],
        diagnose=found["diagnose"][0],
    )


def _commands(section: str) -> Iterator[str]:
    """Every logical line with a command, of all blocks of commands in the section."""
    for block in blocks_of(section):
        if any(commands_of_block(block)):
            yield from (line.strip() for _, line in logical_lines(block.text) if line.strip())


def _quoted(pattern: re.Pattern[str], section: str, what: str) -> str:
    found = pattern.findall(section)
    if len(found) != 1:
        raise ReadmeChanged(f"the README says {len(found)} times {what}; once is expected")
    return str(found[0])
