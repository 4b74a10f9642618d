"""What the doctor prints fits a terminal and loses nothing."""

from __future__ import annotations

import itertools

from paceline.bench.run.config import parse_server_url
from paceline.doctor.checks import CHECKS
from paceline.doctor.diagnosing import DoctorConfig, Visit
from paceline.doctor.output.lines import render_lines
from paceline.doctor.values import (
    Diagnosis,
    Evidence,
    Finding,
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
