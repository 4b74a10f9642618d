"""The streams in which vLLM 0.32 answers an agent on /v1/responses: reasoning, texts and calls.

The events of calls and texts are those that vLLM sends with `--tool-call-parser hermes` for forced
calls; those of reasoning are after its source (entrypoints/openai/responses/streaming_events.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from coding_agents import Json

_NO_CALLER = {"async": None, "caller": None, "namespace": None}


def answer_stream(items: Sequence[Json], model: str) -> bytes:
    """The stream with these items, given as an agent sends them back: without ids."""
    items = [_with_id(item, index) for index, item in enumerate(items)]
    begun = {"response": _response(model, "in_progress", [])}
    events: list[tuple[str, Json]] = [("created", begun), ("in_progress", begun)]
    for index, item in enumerate(items):
        events += [(kind, {**fields, "output_index": index}) for kind, fields in _events(item)]
    events.append(("completed", {"response": _response(model, "completed", items)}))
    return b"".join(
        f"event: response.{kind}\ndata: ".encode()
        + json.dumps({**fields, "sequence_number": number, "type": f"response.{kind}"}).encode()
        + b"\n\n"
        for number, (kind, fields) in enumerate(events)
    )


def _with_id(item: Json, index: int) -> Json:
    prefix = {"reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
    whole = {**item, "id": f"{prefix.get(item['type'], 'msg')}_{index}"}
    if item["type"] == "message":
        parts = [{"annotations": [], "logprobs": None, **part} for part in item["content"]]
        whole |= {"content": parts, "phase": None}
    if item["type"].endswith("_call"):
        whole = {**_NO_CALLER, **whole}
    return whole if item["type"] == "custom_tool_call" else {**whole, "status": "completed"}


def _events(item: Json) -> Iterator[tuple[str, Json]]:
    """The events of one item, with its text in two parts."""
    field, kind, text, done = {
        "message": ("content", "output_text", _text(item), "text"),
        "reasoning": ("content", "reasoning_text", _text(item), "text"),
        "function_call": (
            "arguments", "function_call_arguments", item.get("arguments"), "arguments",
        ),
        "custom_tool_call": ("input", "custom_tool_call_input", item.get("input"), "input"),
    }[item["type"]]  # fmt: skip
    place = {"item_id": item["id"]}
    empty: object = ""
    if field == "content":
        place["content_index"] = 0
        empty = [] if item["type"] == "message" else None
    yield "output_item.added", {"item": {**item, field: empty, "status": "in_progress"}}
    if field == "content":
        yield "content_part.added", {**place, "part": {**item["content"][0], "text": ""}}
    for part in (text[:4], text[4:]):
        logprobs = {"logprobs": []} if kind == "output_text" else {}
        yield f"{kind}.delta", {**place, "delta": part, **logprobs}
    name = {"name": item["name"]} if item["type"] == "function_call" else {}
    yield f"{kind}.done", {**place, done: text, **name, **logprobs}
    if field == "content":
        yield "content_part.done", {**place, "part": item["content"][0]}
    yield "output_item.done", {"item": item}


def _text(item: Json) -> str:
    content = item.get("content")
    return content[0]["text"] if content else ""


def _response(model: str, status: str, output: list[Json]) -> Json:
    usage = {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12,
    }
    return {
        "id": "resp_1",
        "created_at": 1,
        "model": model,
        "object": "response",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": status,
        "usage": usage if status == "completed" else None,
    }
