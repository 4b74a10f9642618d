"""The kinds of streams of the mixed load, and the check of each against its known answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.expected_requests import CHAT, ExpectedRequest, expected_request
from chaos.fleet import MODEL
from chaos.transcript import Ending, Transcript
from paceline.mock_vllm import (
    RequestRecord,
    encode_chat,
    expected_answer,
    hash_of_ids,
)
from paceline.mock_vllm.model.detokenizer import Detokenizer

RESPONSES = "/v1/responses"
_TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
_SCHEMA = {"type": "json_schema", "json_schema": {"name": "any", "schema": {"type": "object"}}}


@dataclass(frozen=True, slots=True)
class StreamKind:
    """One kind of stream."""

    name: str
    request: Callable[[int, int], ExpectedRequest]
    """(number, most tokens) to the request. Numbers make prompts different."""
    is_continuable: bool = True
    """Whether the gateway must complete it. Others may end with an error after a token."""

    def errors_in(
        self,
        request: ExpectedRequest,
        transcript: Transcript,
        records: Sequence[RequestRecord],
        *,
        is_beyond_limit: bool = False,
    ) -> list[str]:
        """What is wrong with the stream that the client received.

        `is_beyond_limit`: more replicas failed under it than a stream is continued.
        """
        may_be_given_up = is_beyond_limit or not self.is_continuable
        if transcript.ending is Ending.ERROR_EVENT and may_be_given_up:
            if not transcript.has_first_token:
                return [f"lost before its first token: {transcript.error}"]
            whole, errors = request.answer.text, list[str]()
            if self.is_continuable and "seed" in request.body:
                _, whole, errors = _sampled_answer(request, records)
            if not whole.startswith(transcript.text):
                errors.append(f"text {transcript.text!r} before the error")
            return errors
        if "seed" in request.body and transcript.ending is Ending.COMPLETED:
            return [*transcript.format_errors(), *_sampled_errors(request, transcript, records)]
        return request.errors_in(transcript)


def _greedy(number: int, max_tokens: int) -> ExpectedRequest:
    return expected_request(number, max_tokens=max_tokens)


def _chat(number: int, max_tokens: int, fields: dict[str, Any]) -> ExpectedRequest:
    content = f"Show me {number} 🚲."
    prompt = encode_chat([("user", content)], add_generation_prompt=True)
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": max_tokens,
        "stream": True,
        **fields,
    }
    answer = expected_answer(prompt, max_tokens, seed=fields.get("seed"))
    return ExpectedRequest(CHAT, body, tuple(prompt), answer)


def _sampled(number: int, max_tokens: int) -> ExpectedRequest:
    fields = {"temperature": 1, "seed": number, "stream_options": {"include_usage": True}}
    return _chat(number, max_tokens, fields)


def _tools(number: int, max_tokens: int) -> ExpectedRequest:
    return _chat(number, max_tokens, {"temperature": 0, "tools": [_TOOL]})


def _json_schema(number: int, max_tokens: int) -> ExpectedRequest:
    return _chat(number, max_tokens, {"temperature": 0, "response_format": _SCHEMA})


def _responses(number: int, max_tokens: int) -> ExpectedRequest:
    content = f"Respond {number} 🚲 times."
    prompt = encode_chat([("user", content)], add_generation_prompt=True)
    body = {
        "model": MODEL,
        "input": content,
        "max_output_tokens": max_tokens,
        "stream": True,
        "temperature": 0,
    }
    return ExpectedRequest(RESPONSES, body, tuple(prompt), expected_answer(prompt, max_tokens))


KINDS = (
    StreamKind("greedy", _greedy),
    StreamKind("sampled", _sampled),
    StreamKind("responses", _responses, is_continuable=False),
    StreamKind("tools", _tools, is_continuable=False),
    StreamKind("JSON schema", _json_schema, is_continuable=False),
)
"""The mock replicas answer requests with tools and with a JSON schema in plain text."""


def _sampled_errors(
    request: ExpectedRequest, transcript: Transcript, records: Sequence[RequestRecord]
) -> Iterable[str]:
    ids, text, errors = _sampled_answer(request, records)
    yield from errors
    if transcript.text != text:
        yield f"text {transcript.text!r} instead of {text!r}"
    if transcript.usage is None or transcript.usage["completion_tokens"] != len(ids):
        yield f"usage {transcript.usage} for {len(ids)} tokens"


def _sampled_answer(
    request: ExpectedRequest, records: Sequence[RequestRecord]
) -> tuple[list[int], str, list[str]]:
    """Ids and text that follow from the seed and the resume point of every attempt, and what was
    wrong with the attempts' prompts."""
    prompt, max_tokens = request.prompt_ids, request.body["max_tokens"]
    ids: list[int] = []
    errors = []
    starts = [record.num_prompt_tokens - len(prompt) for record in records]
    for start, record in sorted(zip(starts, records, strict=True), key=lambda pair: pair[0]):
        ids = ids[:start]
        if record.prompt_hash != hash_of_ids([*prompt, *ids]):
            errors.append(f"a replica's prompt was not the prompt and the first {start} tokens")
        rest = expected_answer([*prompt, *ids], max_tokens - start, seed=record.seed)
        ids += rest.ids
    detokenizer = Detokenizer(prompt)
    return ids, "".join(map(detokenizer.feed, ids)), errors
