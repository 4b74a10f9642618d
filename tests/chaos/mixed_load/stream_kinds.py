"""The kinds of streams of the mixed load, and the check of each against its known answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.expected_requests import CHAT, ExpectedRequest, expected_request
from chaos.fleet import MODEL
from chaos.text_difference import describe_difference
from chaos.transcript import Ending, Transcript
from paceline.testing.mock_vllm import (
    RequestRecord,
    encode_chat,
    expected_answer,
    hash_of_ids,
)
from paceline.testing.mock_vllm.model.detokenizer import Detokenizer

RESPONSES = "/v1/responses"
MAX_STRUCK = 2
"""A stream that lost this many replicas may be given up: its request may be what kills them."""
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
        num_struck: int = 0,
    ) -> list[str]:
        """What is wrong with the stream that the client received.

        `num_struck`: how many replicas failed while it ran on them.
        """
        max_struck = MAX_STRUCK if self.is_continuable else 1
        is_lost = num_struck >= MAX_STRUCK and not transcript.has_first_token
        if is_lost and transcript.ending in (Ending.REFUSED, Ending.ERROR_EVENT):
            return []
        if transcript.ending is Ending.ERROR_EVENT:
            if not transcript.has_first_token:
                return [f"lost before its first token: {transcript.error}"]
            errors = []
            if num_struck < max_struck:
                errors.append(
                    f"ended with an error event although {num_struck} replicas failed under it: "
                    f"{transcript.error}"
                )
            answers, found = _answers(request, records)
            if not any(one.text.startswith(transcript.text) for one in answers):
                beginning = answers[0].text[: len(transcript.text)] if answers else ""
                text = describe_difference(transcript.text, beginning)
                errors.append(f"before the error: text {text}")
            return errors + found
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


@dataclass(frozen=True, slots=True)
class PossibleAnswer:
    """What a client may have received, by the records of the replicas."""

    ids: tuple[int, ...]
    text: str


def _sampled_errors(
    request: ExpectedRequest, transcript: Transcript, records: Sequence[RequestRecord]
) -> Iterable[str]:
    answers, errors = _answers(request, records)
    yield from errors
    if not answers:
        return
    right = [one for one in answers if one.text == transcript.text]
    if not right:
        yield f"text {describe_difference(transcript.text, answers[0].text)}"
        return
    num_tokens = {len(one.ids) for one in right}
    if transcript.usage is None or transcript.usage["completion_tokens"] not in num_tokens:
        yield f"usage {transcript.usage} for {sorted(num_tokens)} tokens"


def _answers(
    request: ExpectedRequest, records: Sequence[RequestRecord]
) -> tuple[list[PossibleAnswer], list[str]]:
    """The answers that follow from the seed and the resume point of every attempt, and what was
    wrong with the attempts' prompts.

    A greedy request has one. Several attempts of a sampled one may begin at the same token with
    different seeds, and only one of them reached the client.
    """
    if "seed" not in request.body:
        return [PossibleAnswer(request.answer.ids, request.answer.text)], []
    prompt, max_tokens = request.prompt_ids, request.body["max_tokens"]
    by_start = defaultdict(list)
    for record in records:
        by_start[record.num_prompt_tokens - len(prompt)].append(record)
    found: list[tuple[int, ...]] = [()]
    for start in sorted(by_start):
        continued = [
            (*ids[:start], *_rest(prompt, ids[:start], max_tokens, record.seed))
            for ids in found
            for record in by_start[start]
            if record.prompt_hash == hash_of_ids([*prompt, *ids[:start]])
        ]
        if not continued:
            return [], [f"a replica's prompt was not the prompt and the first {start} tokens"]
        found = list(dict.fromkeys(continued))
    return [PossibleAnswer(ids, _text(prompt, ids)) for ids in found], []


def _rest(
    prompt: Sequence[int], ids: Sequence[int], max_tokens: int, seed: int | None
) -> tuple[int, ...]:
    return expected_answer([*prompt, *ids], max_tokens - len(ids), seed=seed).ids


def _text(prompt: Sequence[int], ids: Sequence[int]) -> str:
    return "".join(map(Detokenizer(prompt).feed, ids))
