"""Fault scripts: their formats and their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.testing.mock_vllm import Fault, FaultKind, load_faults, read_faults


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": "sneeze"}, "Fault 1: kind must be one of die, hang"),
        ({"kind": "die", "afer_tokens": 1}, "Fault 1 has unknown fields: afer_tokens."),
        (
            {"kind": "die", "after_tokens": "x"},
            "Fault 1: after_tokens must be an integer, got 'x'.",
        ),
        ({"kind": "status", "after_tokens": 3}, "status replaces the answer"),
        (
            {"kind": "reset", "duration_s": 3},
            "duration_s needs a kind of freeze, .*; got reset",
        ),
        ({"kind": "empty", "after_tokens": 3}, "empty replaces the answer"),
        ({"kind": "die", "containing": 5}, "containing must be a string, got 5"),
        (
            {"kind": "status", "route": "health", "containing": "x"},
            "containing requires route generate; got health",
        ),
        ({"kind": "hang", "duration_s": -3}, "duration_s must not be negative, got -3"),
        ({"kind": "reset", "rate": 2}, "rate must be in"),
        ({"kind": "reset", "route": "nowhere"}, "route must be one of"),
        ({"kind": "reset", "request": 0}, "request must be at least 1"),
        ("reset", "Fault 1 must be an object"),
    ],
)
def test_a_wrong_script_is_refused_with_the_reason(entry: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_faults([entry])


def test_scripts_are_yaml_or_json(tmp_path: Path) -> None:
    path = tmp_path / "faults"
    for text in ("faults:\n- kind: die\n  request: 3\n", '{"faults":[{"kind":"die","request":3}]}'):
        path.write_text(text)
        assert load_faults(path) == [Fault(FaultKind.DIE, request=3)]
    path.write_text("just words")
    with pytest.raises(ValueError, match="A fault script must be a list"):
        load_faults(path)
