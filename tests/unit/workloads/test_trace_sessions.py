"""Sessions of a trace: which records belong together, when turns are due, and what they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.workloads import FillerText, Prompt, Trace, Turn, WorkloadError, load_trace

FILLER = FillerText("abcdefghij" * 500, chars_per_token=2.0)
TOOLS = [{"type": "function", "function": {"name": "ls"}}]


def load(tmp_path: Path, *rows: dict[str, Any], **settings: Any) -> Trace:
    path = tmp_path / "agents.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return load_trace(path, **settings)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_recorded_messages_of_an_agent_are_sent_as_recorded(tmp_path: Path) -> None:
    """The recorded answer, not a new one, precedes the result of the tool."""
    call = {"role": "assistant", "tool_calls": [{"id": "1"}], "content": None}
    history = [user("list"), call, {"role": "tool", "tool_call_id": "1", "content": "a.py"}]
    trace = load(
        tmp_path,
        {"session_id": "x", "at_s": 3, "messages": [user("list")], "tools": TOOLS, "max_tokens": 9},
        {"session_id": "y", "at_s": 1, "messages": [user("other")]},
        {"session_id": "x", "think_s": 2.5, "messages": history, "output_length": 4},
    )
    assert not trace.needs_filler
    assert [entry.due_s for entry in trace.entries] == [0.0, 2.0]
    session = trace.entries[1].prompt(0, None)
    assert session.messages == (user("list"),)
    assert (session.max_tokens, session.fields) == (9, {"tools": TOOLS})
    assert session.turns == (Turn("", 2.5, recorded=Prompt("trace", tuple(history), None, 4)),)


def test_lengths_of_a_session_are_new_messages_of_a_growing_chat(tmp_path: Path) -> None:
    """AIPerf's multi-turn form: delays in milliseconds, answers live."""
    trace = load(
        tmp_path,
        {"session_id": "s", "input_length": 30, "output_length": 4},
        {"session_id": "s", "delay": 1500, "input_length": 10, "output_length": 2},
    )
    assert not trace.has_times
    session = trace.entries[0].prompt(0, FILLER)
    assert session.messages is not None
    assert (len(session.messages[0]["content"]), session.max_tokens) == (60, 4)
    assert session.ignore_eos
    (turn,) = session.turns
    assert (len(turn.content), turn.think_s, turn.max_tokens, turn.recorded) == (20, 1.5, 2, None)


def test_blocks_of_a_session_are_whole_prompts_that_share_their_beginning(tmp_path: Path) -> None:
    trace = load(
        tmp_path,
        {"session_id": "s", "at_s": 10, "input_length": 100, "output_length": 4, "hash_ids": [7]},
        {
            "session_id": "s",
            "at_s": 14,
            "input_length": 180,
            "output_length": 2,
            "hash_ids": [7, 8],
        },
        speed=2.0,
        block_tokens=90,
    )
    session = trace.entries[0].prompt(0, FILLER)
    (turn,) = session.turns
    assert turn.recorded is not None
    # One block of 90 tokens, two characters each.
    assert (session.text or "")[:180] == (turn.recorded.text or "")[:180]
    assert (len(turn.recorded.text or ""), turn.recorded.max_tokens) == (360, 2)
    assert (turn.after_s, trace.duration_s) == (2.0, 4.0)


def test_a_session_is_in_the_order_of_its_times(tmp_path: Path) -> None:
    trace = load(
        tmp_path,
        {"session_id": 1, "at_s": 9, "prompt": "late"},
        {"session_id": 1, "at_s": 4, "prompt": "early"},
    )
    session = trace.entries[0].prompt(0, None)
    assert session.text == "early"
    assert [turn.recorded.text for turn in session.turns if turn.recorded] == ["late"]


def test_prompts_that_a_gateway_captured_are_sent_at_their_times(tmp_path: Path) -> None:
    trace = load(
        tmp_path,
        {"at": "2026-11-23T09:12:44+00:00", "model": "m", "category": "code", "prompt": "a"},
        {
            "at": "2026-11-23T09:12:46+00:00",
            "model": "m",
            "category": "chat",
            "messages": [user("b")],
        },
    )
    assert [entry.due_s for entry in trace.entries] == [0.0, 2.0]
    assert [entry.prompt(0, None).task for entry in trace.entries] == ["code", "chat"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"session_id": "a", "at_s": 0, "prompt": "a"}, {"session_id": "b", "prompt": "b"}],
            "line 2: session 'b' begins here without a time",
        ),
        ([{"prompt": "a"}], "line 1: the time is missing.*it has prompt"),
        (
            [{"session_id": "a", "prompt": "a", "delay": 1, "think_s": 1}],
            "think_s and delay exclude each other",
        ),
        ([{"session_id": "a", "prompt": "a", "delay": -1}], "delay is -1; it must be at least 0"),
    ],
)
def test_bad_sessions_are_refused(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        load(tmp_path, *rows)
