"""Faults of streams: their protocol, their end, their text and their usage."""

from __future__ import annotations

import json
from typing import Any

from paceline.testing.fault_injection.fault import CUT, Call, Event, Fault, edit_call, edit_chunk

_EARLY, _LATE = 3, 6
"""Numbers of the text events that are changed."""


def _has_text(chunk: dict[str, Any]) -> bool:
    return any(
        choice.get("text") or (choice.get("delta") or {}).get("content")
        for choice in chunk.get("choices", ())
    )


def _counted(call: Call, chunk: dict[str, Any]) -> int:
    """The number of this text event of the stream, from 1; 0 for an event without text."""
    if not _has_text(chunk):
        return 0
    call.state["num"] = call.state.get("num", 0) + 1
    return int(call.state["num"])


def _drop_done(call: Call, event: Event) -> list[Event]:
    return [] if event == b"[DONE]" else [event]


def _cut(call: Call, event: Event) -> list[Event]:
    call.state["num"] = call.state.get("num", 0) + 1
    return [CUT] if call.state["num"] == _LATE else [event]


def _garble(call: Call, event: Event) -> list[Event]:
    call.state["num"] = call.state.get("num", 0) + 1
    return [event[: len(event) // 2]] if call.state["num"] == _EARLY else [event]


def _new_id(call: Call, chunk: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**chunk, "id": f"{chunk['id']}-{_counted(call, chunk)}"}]


def _error(call: Call, event: Event) -> list[Event]:
    call.state["num"] = call.state.get("num", 0) + 1
    error = json.dumps({"error": {"message": "engine failed", "code": 500}}).encode()
    return [error, event] if call.state["num"] == _EARLY else [event]


def _drop_finish(call: Call, chunk: dict[str, Any]) -> list[dict[str, Any]]:
    for choice in chunk.get("choices", ()):
        choice["finish_reason"] = None
    return [chunk]


def _repeat_finish(call: Call, chunk: dict[str, Any]) -> list[dict[str, Any]]:
    ends = [choice for choice in chunk.get("choices", ()) if choice.get("finish_reason")]
    again = [{**one, "text": "", "delta": {"content": ""}, "token_ids": None} for one in ends]
    return [chunk, {**chunk, "choices": again}] if ends else [chunk]


def _text_after_end(call: Call, chunk: dict[str, Any]) -> list[dict[str, Any]]:
    if _has_text(chunk):
        call.state["last"] = chunk
    ends = [choice for choice in chunk.get("choices", ()) if choice.get("finish_reason")]
    if not ends or "last" not in call.state:
        return [chunk]
    late = [{**one, "finish_reason": None} for one in call.state["last"]["choices"]]
    return [chunk, {**call.state["last"], "choices": late}]


def _twice(call: Call, chunk: dict[str, Any]) -> list[dict[str, Any]]:
    is_chosen = _counted(call, chunk) == _EARLY
    return [chunk, chunk] if is_chosen and not _ends(chunk) else [chunk]


def _lost(call: Call, chunk: dict[str, Any]) -> list[dict[str, Any]]:
    is_chosen = _counted(call, chunk) == _LATE
    return [] if is_chosen and not _ends(chunk) else [chunk]


def _swapped(call: Call, chunk: dict[str, Any]) -> list[dict[str, Any]]:
    number = _counted(call, chunk)
    if number == _EARLY and not _ends(chunk):
        call.state["held"] = chunk
        return []
    held = call.state.pop("held", None)
    return [chunk] if held is None else [chunk, held]


def _ends(chunk: dict[str, Any]) -> bool:
    return any(choice.get("finish_reason") for choice in chunk.get("choices", ()))


def _drop_usage(call: Call, chunk: dict[str, Any]) -> list[dict[str, Any]]:
    return [] if chunk.get("usage") and not chunk.get("choices") else [chunk]


def _short_usage(call: Call, chunk: dict[str, Any]) -> list[dict[str, Any]]:
    if chunk.get("usage"):
        chunk["usage"]["completion_tokens"] -= 1
        chunk["usage"]["total_tokens"] -= 1
    return [chunk]


def _usage_twice(call: Call, chunk: dict[str, Any]) -> list[dict[str, Any]]:
    return [chunk, chunk] if chunk.get("usage") else [chunk]


def _sample(fields: dict[str, Any]) -> None:
    if fields.get("temperature") == 0:
        fields["temperature"] = 1.5
        fields.pop("seed", None)


FAULTS = (
    Fault(
        "stream-without-done",
        "stream-protocol",
        "[DONE] is missing.",
        "0 events [DONE]",
        on_event=_drop_done,
    ),
    Fault(
        "stream-cut",
        "stream-protocol",
        "The connection breaks after some events.",
        "the stream broke off",
        on_event=_cut,
    ),
    Fault(
        "stream-garbled",
        "stream-protocol",
        "One event is no JSON.",
        "an event is no JSON object",
        on_event=_garble,
    ),
    Fault(
        "stream-content-type",
        "stream-protocol",
        "The content type is text/plain.",
        "content type 'text/plain'",
        content_type="text/plain",
    ),
    Fault(
        "stream-ids",
        "stream-protocol",
        "Every chunk has another id.",
        "ids, expected one",
        on_event=edit_chunk(_new_id),
    ),
    Fault(
        "stream-error",
        "stream-protocol",
        "An error event precedes further text.",
        "engine failed",
        on_event=_error,
    ),
    Fault(
        "finish-missing",
        "stream-finish",
        "Streams have no finish reason.",
        "finish reasons []",
        on_event=edit_chunk(_drop_finish),
    ),
    Fault(
        "finish-twice",
        "stream-finish",
        "The finish reason is sent twice.",
        "finish reasons ['length', 'length']",
        on_event=edit_chunk(_repeat_finish),
    ),
    Fault(
        "text-after-end",
        "stream-finish",
        "Text follows the finish reason.",
        "text after its finish reason",
        on_event=edit_chunk(_text_after_end),
    ),
    Fault(
        "token-twice",
        "stream-text",
        "One event of a stream is sent twice.",
        "the greedy stream after",
        on_event=edit_chunk(_twice),
    ),
    Fault(
        "token-lost",
        "stream-text",
        "One event of a stream is lost.",
        "the greedy stream after",
        on_event=edit_chunk(_lost),
    ),
    Fault(
        "tokens-swapped",
        "stream-text",
        "Two events of a stream change places.",
        "the greedy stream after",
        on_event=edit_chunk(_swapped),
    ),
    Fault(
        "greedy-sampled",
        "greedy-repeats",
        "Greedy requests are sampled.",
        "greedy answers to one prompt all differ",
        on_call=edit_call(_sample),
    ),
    Fault(
        "usage-stream-missing",
        "usage-stream",
        "Streams have no usage.",
        "has 0 usages",
        on_event=edit_chunk(_drop_usage),
    ),
    Fault(
        "usage-stream-short",
        "usage-stream",
        "Usage of a stream counts one token too few.",
        "usage counts 19 completion tokens, the answer has 20",
        on_event=edit_chunk(_short_usage),
    ),
    Fault(
        "usage-stream-twice",
        "usage-stream",
        "Usage of a stream is sent twice.",
        "has 2 usages",
        on_event=edit_chunk(_usage_twice),
    ),
)
