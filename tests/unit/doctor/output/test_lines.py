"""What the doctor prints fits a terminal and loses nothing."""

from __future__ import annotations

import io
import itertools

import pytest
from rich.console import Console

from paceline.foundation.load.config import parse_server_url
from paceline.operations.doctor.checks import CHECKS
from paceline.operations.doctor.diagnosing import DoctorConfig, Visit
from paceline.operations.doctor.output.lines import render_lines
from paceline.operations.doctor.output.progress import terminal_stages
from paceline.operations.doctor.probing.settings import ProbeSettings
from paceline.operations.doctor.values import (
    Diagnosis,
    Evidence,
    Finding,
    Lacking,
    NotJudged,
    Severity,
    unknown_cost,
)

_LONG_URL = "http://" + "very-long-host-name." * 6 + "example:8000"
_WORDS = "every word of a long text must be read again " * 12


def _lines(unreachable: str | None = None) -> list[str]:
    finding = Finding(
        "engine-restarted", Severity.CRITICAL, _WORDS, (Evidence("reason", _WORDS),),
        unknown_cost(_WORDS), _WORDS, f"Read {_LONG_URL}/x {_WORDS}", ("a", "b"),
    )  # fmt: skip
    passed = tuple(check.id for check in CHECKS)
    diagnosis = Diagnosis((finding,), passed, (NotJudged("log", _WORDS),))
    visit = Visit(DoctorConfig(parse_server_url(_LONG_URL), 15.0))
    visit.unreachable = unreachable
    visit.notes.append(_WORDS)
    return list(render_lines(visit, diagnosis))


def test_no_line_is_longer_than_a_hundred_characters_unless_it_is_one_word() -> None:
    for line in itertools.chain(_lines(), _lines(unreachable=_WORDS)):
        assert len(line) <= 100 or len(line.split()) == 1, line


def test_wrapping_loses_and_changes_no_word() -> None:
    words = " ".join(_lines()).split()
    text = " ".join(words)
    assert text.count(" ".join(_WORDS.split())) == 6 + 1
    assert f"{_LONG_URL}/x" in words
    assert " ".join(f"{check.id}," for check in CHECKS)[:-1] in text


@pytest.mark.parametrize(
    ("url", "kind", "probe", "advice"),
    [
        (
            "http://h:9001",
            "paceline",
            False,
            "doctor http://h:9001 --probe --data-url http://h:8000",
        ),
        ("http://h:9000", "vllm", False, "paceline doctor http://h:9000 --probe"),
        ("http://h:9000", "vllm", True, "probe for longer (--seconds 60)"),
    ],
)
def test_what_lacks_requests_comes_with_how_to_get_them(
    url: str, kind: str, probe: bool, advice: str
) -> None:
    address = parse_server_url(url)
    settings = ProbeSettings(address, None, 15.0, 1) if probe else None
    visit = Visit(DoctorConfig(address, 15.0, probe=settings), kind)
    lacking = NotJudged("failing-requests", "0 requests ended", Lacking.REQUESTS)
    other = NotJudged("log", "no log was read")
    text = " ".join(
        " ".join(render_lines(visit, Diagnosis((), ("queue",), (other, lacking), 0.0))).split()
    )
    assert "in 0 s; 0 requests ended" in text
    assert "1 check without a verdict for lack of requests: - failing-requests" in text
    assert f"{advice} 1 check without a verdict: - log" in text.replace("). 1", ") 1")
    assert "1 checks passed, which look for: - queue: requests that wait" in text


def test_a_terminal_shows_the_stage_and_a_pipe_nothing() -> None:
    for is_terminal in (True, False):
        shown = io.StringIO()
        console = Console(file=shown, force_terminal=is_terminal, width=80)
        with terminal_stages(console) as on_stage:
            on_stage("observing for 15 s")
        assert ("observing for 15 s" in shown.getvalue()) == is_terminal
