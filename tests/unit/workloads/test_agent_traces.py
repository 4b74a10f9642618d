"""Public traces of agents, with small samples of our own making, as sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.workloads import FillerText, Trace, TraceEntry, WorkloadError, load_trace

FILLER = FillerText("abcdefghij" * 500, chars_per_token=2.0)


def load(tmp_path: Path, *records: dict[str, Any]) -> Trace:
    path = tmp_path / "agents.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    return load_trace(path)


def calls(entry: TraceEntry) -> list[tuple[int, int, float | None]]:
    """Input and output tokens of each call of a session, and the pause before it."""
    return [
        (c.input_tokens, c.output_tokens, None if c.think_s is None else round(c.think_s, 6))
        for c in (entry, *entry.turns)
    ]


def weka(session: str, *requests: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": session,
        "models": ["m"],
        "block_size": 64,
        "hash_id_scope": "local",
        "requests": list(requests),
    }


def call(t: float, num_in: int, ids: list[int], **more: Any) -> dict[str, Any]:
    return {"t": t, "type": "n", "model": "m", "in": num_in, "out": 9, "hash_ids": ids, **more}


def test_a_weka_session_keeps_its_blocks_and_the_time_of_its_tools(tmp_path: Path) -> None:
    """The second call begins 2 s after the first answer; the third states its pause."""
    requests = (
        call(0.0, 130, [1, 2], api_time=1.0),
        call(3.0, 200, [1, 2, 3], api_time=4.0),
        call(9.0, 210, [1, 2, 3], think_time=0.5),
    )
    trace = load(tmp_path, weka("a", *requests), weka("b", requests[0]))
    assert (trace.has_times, trace.form) == (False, "Weka")
    first, second = trace.entries
    assert calls(first) == [(130, 9, None), (200, 9, 2.0), (210, 9, 0.5)]
    assert {entry.block_tokens for entry in (first, *first.turns)} == {64}
    assert first.turns[0].block_ids[:2] == first.block_ids
    # Each session numbers its blocks from the start: equal numbers are other texts.
    assert set(first.block_ids).isdisjoint(second.block_ids)
    session = first.prompt(0, FILLER)
    assert session.text is not None
    (turn, _) = session.turns
    assert turn.recorded is not None
    assert turn.recorded.text is not None
    assert turn.recorded.text[: 2 * 64 * 2] == session.text[: 2 * 64 * 2]


def test_subagents_of_a_weka_session_are_sessions(tmp_path: Path) -> None:
    inner = {"t": 1.0, "type": "subagent", "agent_id": "x", "requests": [call(0, 70, [8])] * 2}
    trace = load(tmp_path, weka("a", call(0, 130, [1, 2]), inner, call(5, 140, [1, 2])))
    assert sorted(len(entry.turns) for entry in trace.entries) == [1, 1]
    assert sorted(entry.input_tokens for entry in trace.entries) == [70, 130]


def copilot(session: str, *moments: tuple[str, float, int, int]) -> dict[str, Any]:
    """Each moment: the start, the duration in ms, the prompt's tokens and the cached ones."""
    llm_calls = [
        {
            "message_id": "m",
            "timestamp": at,
            "duration_ms": duration_ms,
            "result": "Success",
            "tokens": {"total": 0, "prompt": prompt, "completion": 5, "cached": cached},
        }
        for at, duration_ms, prompt, cached in moments
    ]
    turns = [{"turn_id": "t", "llm_calls": llm_calls, "tool_batches": []}]
    return {"session_id": session, "date": "2026-06-01", "turns": turns}


def test_copilot_sessions_begin_at_their_dates_and_share_what_was_cached(tmp_path: Path) -> None:
    """192 tokens are three blocks of 64; 130 cached tokens are two of them."""
    trace = load(
        tmp_path,
        copilot(
            "a",
            ("2026-06-01T10:00:05Z", 1000.0, 192, 0),
            ("2026-06-01T10:00:07.5Z", 500.0, 256, 130),
            ("2026-06-01T10:00:07.6Z", 500.0, 64, 0),
        ),
        copilot("b", ("2026-06-01T10:00:00Z", 10.0, 100, 64)),
    )
    later, first = sorted(trace.entries, key=lambda entry: -(entry.due_s or 0))
    assert (first.due_s, later.due_s, trace.time_unit) == (0.0, 5.0, "date")
    assert trace.form == "GitHub Copilot"
    assert calls(later) == [(192, 5, None), (256, 5, 1.5), (64, 5, 0.0)]
    blocks = [entry.block_ids for entry in (later, *later.turns)]
    assert [len(ids) for ids in blocks] == [3, 4, 1]
    assert blocks[1][:2] == blocks[0][:2]
    assert blocks[1][2] != blocks[0][2]


def tracelab(session: str, number: int, *events: tuple[str, str], **tokens: int) -> dict[str, Any]:
    return {
        "session_id": session,
        "round_index": number,
        "timing_events": [{"event_type": kind, "timestamp": at} for kind, at in events],
        "tools": [],
        **tokens,
    }


def test_tracelab_rounds_are_sessions_in_the_order_of_their_times(tmp_path: Path) -> None:
    """A round is sent after its last input and ends with its last output."""
    first = tracelab(
        "claude:1", 0,
        ("user_message", "2026-05-01T08:00:00Z"), ("text", "2026-05-01T08:00:01Z"),
        ("tool_call", "2026-05-01T08:00:03Z"),
        input_tokens_total=128, prefix_tokens=0, output_tokens=20, reasoning_output_tokens=5,
    )  # fmt: skip
    second = tracelab(
        "claude:1", 1,
        ("tool_result", "2026-05-01T08:00:04Z"), ("tool_result", "2026-05-01T08:00:05.5Z"),
        ("text", "2026-05-01T08:00:06Z"),
        input_tokens_total=192, prefix_tokens=128, output_tokens=7,
    )  # fmt: skip
    undated = tracelab("claude:1", 2, input_tokens_total=10, output_tokens=1)
    trace = load(tmp_path, second, undated, first)
    (session,) = trace.entries
    assert calls(session) == [(128, 25, None), (192, 7, 2.5)]
    assert session.turns[0].block_ids[:2] == session.block_ids


def test_calls_without_tokens_are_left_out_and_counted(tmp_path: Path) -> None:
    failed = call(5, 0, [])
    trace = load(tmp_path, weka("a", call(0, 130, [1, 2]), failed, call(9, 140, [1, 2])))
    assert trace.num_left_out == 1
    assert [len(entry.turns) for entry in trace.entries] == [1]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (weka("a", call(0, 130, ["x"])), "request 1: hash_ids is .* list of whole numbers"),  # type: ignore[list-item]
        (weka("a", call(0, -1, [])), "request 1: in is -1; it must be at least 0"),
        (copilot("a", ("noon", 1.0, 64, 0)), "call 1: timestamp is 'noon'; it must be a date"),
        (
            tracelab("a", 0, ("text", "noon"), input_tokens_total=1),
            "event: timestamp is 'noon'; it must be a date",
        ),
        (
            {"session_id": "a", "turns": [{"llm_calls": 3}]},
            "line 1: llm_calls is 3; it must be a list",
        ),
        (
            {"session_id": "a", "input_tokens_total": 1, "timing_events": 5},
            "line 1: timing_events is 5; it must be a list",
        ),
    ],
)
def test_a_bad_record_of_an_agent_is_refused(
    tmp_path: Path, record: dict[str, Any], message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        load(tmp_path, record)
