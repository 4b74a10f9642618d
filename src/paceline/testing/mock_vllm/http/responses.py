"""Requests and answers of /v1/responses in the format of vLLM 0.32, byte for byte.

A response is a chat with other names: `parse_response` reads its request as that of a chat. Its
stream consists of named, numbered events, and the first two are sent before the prompt is computed
(entrypoints/openai/responses/{serving,streaming_events}.py). The tests compare them with recorded
answers of vLLM, except for ids and times. The history may hold calls, their results and reasoning;
the mock model itself calls no tool and does not reason.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from paceline.testing.mock_vllm.http.refusals import describe_error, ill_formed
from paceline.testing.mock_vllm.http.request_parser import ParsedRequest, parse_request
from paceline.testing.mock_vllm.http.response_format import ChoiceDelta
from paceline.testing.mock_vllm.http.response_input import chat_messages, check_tools, shown_tools
from paceline.testing.mock_vllm.model.answer import AnswerDelta
from paceline.testing.mock_vllm.settings import MockVllmSettings

_encode = msgspec.json.Encoder().encode
_REASONING = ("context", "effort", "generate_summary", "mode", "summary")
_TEXT = ("format", "verbosity")


def parse_response(
    body: Mapping[str, Any], settings: MockVllmSettings, *, drawn_seed: int
) -> ParsedRequest:
    """Check a request as vLLM does; see `parse_request`. Raises `RequestRefused`."""
    if "input" not in body:
        given = {**body, "request_id": ""}  # vLLM adds it before the check
        detail = describe_error("body.input", "missing", "Field required", given)
        raise ill_formed("body.input", detail)
    messages = body["input"]
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    elif isinstance(messages, list):
        messages = chat_messages(messages)
    check_tools(body.get("tools"))
    if body.get("instructions"):
        messages = [{"role": "system", "content": body["instructions"]}, *messages]
    request = parse_request(
        {**body, "messages": messages, "stream_options": None},
        settings,
        is_chat=True,
        drawn_seed=drawn_seed,
    )
    return replace(request, is_chat=False, response=dict(body))


class ResponseWriter:
    """Renders the stream of one response, or the whole response."""

    def __init__(self, request: ParsedRequest, settings: MockVllmSettings) -> None:
        self._request = request
        self._model = settings.model
        self._id = f"resp_{uuid.uuid4().hex[:16]}"
        self._item_id = f"msg_{uuid.uuid4().hex[:16]}"
        self._created_s = int(time.time())
        self._num_events = 0
        self._text = ""
        self._finish_reason: str | None = None

    def before_tokens(self) -> list[bytes]:
        """The events that vLLM sends before it computes the prompt."""
        response = self._response("in_progress", [], None)
        kinds = ("response.created", "response.in_progress")
        return [self._event(kind, {"response": response}) for kind in kinds]

    def first(self, num_choices: int) -> list[bytes]:
        """Nothing: the item is opened with its first text."""
        assert num_choices == 1
        return []

    def delta(self, new: ChoiceDelta) -> list[bytes]:
        """The events for new tokens; none when they have no text."""
        delta = new.delta
        self._finish_reason = delta.finish_reason
        if not delta.text:
            return []
        events = []
        if not self._text:
            item = self._item("in_progress", [])
            part = {"annotations": [], "text": "", "type": "output_text", "logprobs": []}
            events = [
                self._event("response.output_item.added", {"item": item, "output_index": 0}),
                self._event("response.content_part.added", {**self._place(), "part": part}),
            ]
        self._text += delta.text
        fields = {
            "content_index": 0,
            "delta": delta.text,
            "item_id": self._item_id,
            "logprobs": [],
            "output_index": 0,
        }
        return [*events, self._event("response.output_text.delta", fields)]

    def end(
        self, num_prompt_tokens: int, num_tokens: int, metrics: Mapping[str, Any] | None
    ) -> list[bytes]:
        """The last events."""
        events = []
        if self._text:
            part = self._part()
            item = self._item("completed", [part])
            text = {"logprobs": [], "output_index": 0}
            events = [
                self._event(
                    "response.output_text.done",
                    {"content_index": 0, "item_id": self._item_id, **text},
                    text=self._text,
                ),
                self._event("response.content_part.done", {**self._place(), "part": part}),
                self._event("response.output_item.done", {"item": item, "output_index": 0}),
            ]
        response = self._complete(num_prompt_tokens, num_tokens)
        return [*events, self._event("response.completed", {"response": response})]

    def whole(self, answers: Sequence[tuple[int, AnswerDelta]]) -> bytes:
        """A response that is not streamed; `answers` is one pair (prompt index, whole answer)."""
        [(_, delta)] = answers
        self._text, self._finish_reason = delta.text, delta.finish_reason
        return _encode(self._complete(len(self._request.prompts[0]), len(delta.ids)))

    def _complete(self, num_prompt_tokens: int, num_tokens: int) -> dict[str, Any]:
        status = "incomplete" if self._finish_reason == "length" else "completed"
        output = [self._item("completed", [self._part()])] if self._text else []
        usage = {
            "input_tokens": num_prompt_tokens,
            "input_tokens_details": {
                "cached_tokens": 0,
                "cache_write_tokens": 0,
                "input_tokens_per_turn": [],
                "cached_tokens_per_turn": [],
            },
            "output_tokens": num_tokens,
            "output_tokens_details": {
                "reasoning_tokens": 0,
                "tool_output_tokens": 0,
                "output_tokens_per_turn": [],
                "tool_output_tokens_per_turn": [],
            },
            "total_tokens": num_prompt_tokens + num_tokens,
        }
        return self._response(status, output, usage)

    def _response(
        self, status: str, output: list[dict[str, Any]], usage: dict[str, Any] | None
    ) -> dict[str, Any]:
        body = self._request.response
        assert body is not None
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        tools = _given(body, "tools", [])
        return {
            "id": self._id,
            "created_at": self._created_s,
            "incomplete_details": details,
            "instructions": body.get("instructions"),
            "metadata": body.get("metadata"),
            "model": self._model,
            "object": "response",
            "output": output,
            "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
            "temperature": float(_given(body, "temperature", 1.0)),
            "tool_choice": _given(body, "tool_choice", "auto") if tools else "none",
            "tools": shown_tools(tools),
            "top_p": float(_given(body, "top_p", 1.0)),
            "background": False,
            "max_output_tokens": self._request.sampling.max_tokens,
            "max_tool_calls": body.get("max_tool_calls"),
            "previous_response_id": None,
            "prompt": None,
            "reasoning": _with_nulls(body.get("reasoning"), _REASONING),
            "service_tier": _given(body, "service_tier", "auto"),
            "status": status,
            "text": _with_nulls(body.get("text"), _TEXT),
            "top_logprobs": None,
            "truncation": _given(body, "truncation", "disabled"),
            "usage": usage,
            "user": body.get("user"),
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            **dict.fromkeys(
                ("kv_transfer_params", "ec_transfer_params", "input_messages", "output_messages")
            ),
        }

    def _item(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._item_id,
            "content": content,
            "role": "assistant",
            "status": status,
            "type": "message",
            "phase": None,
        }

    def _part(self) -> dict[str, Any]:
        return {"annotations": [], "text": self._text, "type": "output_text", "logprobs": None}

    def _place(self) -> dict[str, Any]:
        return {"content_index": 0, "item_id": self._item_id, "output_index": 0}

    def _event(self, kind: str, fields: Mapping[str, Any], **later: object) -> bytes:
        data = {**fields, "sequence_number": self._num_events, **later, "type": kind}
        self._num_events += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode(data))


def _given(body: Mapping[str, Any], name: str, default: Any) -> Any:
    value = body.get(name)
    return default if value is None else value


def _with_nulls(value: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any] | None:
    """An object of the request as the answer repeats it: with null for what it lacks."""
    return None if value is None else {**dict.fromkeys(names), **value}
