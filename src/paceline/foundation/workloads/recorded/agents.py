"""Public traces of agents: one record per session or per call, as rows that `traces` reads.

These traces hold lengths, times and what was cached, and no text. A row of theirs states the whole
prompt by blocks, so that a call begins with the text of the call before as far as it was cached. It
is due when the time between the recorded answer before and the recorded call has passed: the tools
of the agent, and its user.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.foundation.workloads.fields import FieldReader

BLOCK_TOKENS = 64
"""Of rows whose trace states cached tokens instead of blocks."""
_MAX_BLOCKS_PER_SESSION = 2**32
"""Between the ids of two sessions, because a trace numbers the blocks of each from the start."""

FORM_FIELD = "form of the trace"
"""Field of a row with the name of the trace that it is of."""

Placed = tuple[str, object]


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of an agent."""

    where: str
    start_s: float | None
    """From any origin that the calls of the session share."""
    duration_s: float
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Of the input: as many as it shares with the call before."""
    at: str | None = None
    """Its start as a date, if the trace states one."""
    block_ids: tuple[int, ...] | None = None
    """None: they follow from the cached tokens."""
    think_s: float | None = None
    """From the answer before; None: it follows from the times."""


def expand_sessions(records: Iterable[Placed]) -> Iterator[Placed]:
    """The records, with those of agents' traces replaced by rows of sessions.

    Raises WorkloadError for a record of such a trace that cannot be read.
    """
    numbers = itertools.count(1)
    rounds: dict[str, list[FieldReader]] = {}
    for where, item in records:
        if not isinstance(item, dict):
            yield where, item
        elif isinstance(item.get("requests"), list):
            yield from _weka_rows(FieldReader(item, where), numbers)
        elif _holds_calls(item.get("turns")):
            yield from _copilot_rows(FieldReader(item, where), next(numbers))
        elif "input_tokens_total" in item and "timing_events" in item:
            rounds.setdefault(str(item.get("session_id")), []).append(FieldReader(item, where))
        else:
            yield where, item
    for session, fields in rounds.items():
        calls = [call for one in fields if (call := _tracelab_call(one)) is not None]
        calls.sort(key=lambda call: call.start_s or 0.0)
        yield from _rows("TraceLab", session, calls, BLOCK_TOKENS, next(numbers))


def _weka_rows(fields: FieldReader, numbers: Iterator[int]) -> Iterator[Placed]:
    """Weka's KV cache tester: a session per record, and one for each subagent within it."""
    session = str(fields.raw("id"))
    block_tokens = fields.count("block_size") or BLOCK_TOKENS
    number = next(numbers)
    own: list[_Call] = []
    for position, item in enumerate(fields.raw("requests"), start=1):
        request = FieldReader(item, f"{fields.where}, request {position}")
        inner = request.raw("requests")
        if not isinstance(inner, list):
            own.append(_weka_call(request, number))
            continue
        calls = [
            _weka_call(FieldReader(one, f"{request.where}, request {n}"), number)
            for n, one in enumerate(inner, start=1)
        ]
        yield from _rows("Weka", f"{session}/{position}", calls, block_tokens, number)
    yield from _rows("Weka", session, own, block_tokens, number)


def _weka_call(fields: FieldReader, number: int) -> _Call:
    ids = fields.raw("hash_ids") or []
    if not isinstance(ids, list) or not all(type(block) is int for block in ids):
        raise fields.error(f"hash_ids is {ids!r}; it must be a list of whole numbers")
    return _Call(
        where=fields.where,
        start_s=fields.number("t"),
        duration_s=fields.number("api_time", lowest=0) or 0.0,
        input_tokens=fields.count("in", lowest=0) or 0,
        output_tokens=fields.count("out", lowest=0) or 0,
        block_ids=tuple(number * _MAX_BLOCKS_PER_SESSION + block for block in ids),
        think_s=fields.number("think_time", lowest=0),
    )


def _copilot_rows(fields: FieldReader, number: int) -> Iterator[Placed]:
    """GitHub Copilot's sessions of 2026, published with the Azure traces."""
    calls: list[_Call] = []
    for turn in fields.raw("turns"):
        for item in _read_list(FieldReader(turn, fields.where), "llm_calls"):
            call = FieldReader(item, f"{fields.where}, call {len(calls) + 1}")
            tokens = FieldReader(call.raw("tokens") or {}, f"{call.where}, tokens")
            at = call.text("timestamp")
            calls.append(
                _Call(
                    where=call.where,
                    start_s=None if at is None else _seconds(call, at),
                    duration_s=(call.number("duration_ms", lowest=0) or 0.0) / 1000,
                    input_tokens=tokens.count("prompt", lowest=0) or 0,
                    output_tokens=tokens.count("completion", lowest=0) or 0,
                    cached_tokens=tokens.count("cached", lowest=0) or 0,
                    at=at,
                )
            )
    session = str(fields.raw("session_id"))
    yield from _rows("GitHub Copilot", session, calls, BLOCK_TOKENS, number)


def _holds_calls(turns: object) -> bool:
    return (
        isinstance(turns, list)
        and bool(turns)
        and all(isinstance(turn, dict) and "llm_calls" in turn for turn in turns)
    )


def _read_list(fields: FieldReader, name: str) -> list[Any]:
    """The items of a list; none if it is absent or null."""
    items = fields.raw(name)
    if items is not None and not isinstance(items, list):
        raise fields.error(f"{name} is {items!r}; it must be a list")
    return items or []


def _tracelab_call(fields: FieldReader) -> _Call | None:
    """A round of TraceLab; None without a time, which leaves its place in the session open."""
    events = [
        FieldReader(event, f"{fields.where}, event")
        for event in _read_list(fields, "timing_events")
    ]
    times = {
        is_input: [
            (_seconds(event, at), at)
            for event in events
            if (event.raw("event_type") in ("user_message", "tool_result")) is is_input
            and (at := event.text("timestamp")) is not None
        ]
        for is_input in (True, False)
    }
    if not any(times.values()):
        return None
    # A call was sent after the last of its inputs, and ended with the last of its outputs.
    start_s, at = max(times[True]) if times[True] else min(times[False])
    end_s = max((moment for moment, _ in times[False]), default=start_s)
    return _Call(
        where=fields.where,
        start_s=start_s,
        duration_s=max(0.0, end_s - start_s),
        input_tokens=fields.count("input_tokens_total", lowest=0) or 0,
        output_tokens=sum(
            fields.count(name, lowest=0) or 0
            for name in ("output_tokens", "reasoning_output_tokens")
        ),
        cached_tokens=fields.count("prefix_tokens", lowest=0) or 0,
        at=at,
    )


def _rows(
    form: str, session: str, calls: Sequence[_Call], block_tokens: int, number: int
) -> Iterator[Placed]:
    """The calls of one session; the first has the time of the session, if there is one."""
    fresh = itertools.count(number * _MAX_BLOCKS_PER_SESSION)
    ids: tuple[int, ...] = ()
    end_s: float | None = None
    for position, call in enumerate(calls):
        ids = call.block_ids if call.block_ids is not None else _chain(ids, call, fresh)
        row: dict[str, Any] = {
            "session_id": session,
            "input_length": call.input_tokens,
            "output_length": call.output_tokens,
            "hash_ids": list(ids),
            "block_size": block_tokens,
            FORM_FIELD: form,
        }
        if position == 0:
            if call.at is not None:
                row["at"] = call.at
        elif call.think_s is not None:
            row["think_s"] = call.think_s
        elif call.start_s is not None and end_s is not None:
            row["think_s"] = max(0.0, call.start_s - end_s)
        if call.start_s is not None:
            end_s = call.start_s + call.duration_s
        yield call.where, row


def _chain(before: tuple[int, ...], call: _Call, fresh: Iterator[int]) -> tuple[int, ...]:
    """The blocks of a call: those of the call before as far as they were cached, then new ones."""
    num_blocks = call.input_tokens // BLOCK_TOKENS
    kept = before[: min(call.cached_tokens // BLOCK_TOKENS, num_blocks)]
    return (*kept, *itertools.islice(fresh, num_blocks - len(kept)))


def _seconds(fields: FieldReader, date: str) -> float:
    try:
        moment = datetime.datetime.fromisoformat(date.strip())
    except ValueError as error:
        raise fields.error(f"timestamp is {date!r}; it must be a date with time") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp()
