"""Render answers in the format of vLLM 0.32, byte for byte.

Keys, their order and their nulls are those of vLLM's protocol classes as its serving classes fill
them in (entrypoints/openai/{chat_completion,completion}). The tests compare them with recorded
answers of vLLM, except for ids, times and fingerprints.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from paceline.testing.mock_vllm.http.logprobs import render_logprobs
from paceline.testing.mock_vllm.http.request_parser import ParsedRequest
from paceline.testing.mock_vllm.model.answer import AnswerDelta
from paceline.testing.mock_vllm.model.vocabulary import decode
from paceline.testing.mock_vllm.settings import MockVllmSettings

VLLM_VERSION = "0.32.0"
"""The release whose answers were recorded: they, not Paceline, say what this server imitates."""
DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


def fingerprint(settings: MockVllmSettings) -> str:
    digest = hashlib.sha256(f"{settings.model}/{settings.max_model_len}".encode()).hexdigest()
    return f"vllm-{VLLM_VERSION}-{digest[:8]}"


def render_error(status: int, message: str, kind: str, param: str | None = None) -> bytes:
    return _encode({"error": {"message": message, "type": kind, "param": param, "code": status}})


def render_error_event(status: int, message: str, kind: str) -> bytes:
    """Render vLLM's error event, with a space after every colon and comma as in `json.dumps`."""
    text = _encode(message).decode()
    return (
        f'data: {{"error": {{"message": {text}, "type": "{kind}", "param": null, '
        f'"code": {status}}}}}\n\n'
    ).encode()


def make_answer_id(request: ParsedRequest, request_id: str) -> str:
    return f"{'chatcmpl' if request.is_chat else 'cmpl'}-{request_id or uuid.uuid4().hex[:16]}"


@dataclass(frozen=True, slots=True)
class ChoiceDelta:
    """New tokens of one choice of an answer."""

    choice: int
    delta: AnswerDelta
    num_tokens: int
    """Tokens of the choice so far, these included."""
    prompt: Sequence[int]

    @property
    def is_first(self) -> bool:
        return self.num_tokens == len(self.delta.ids)


class EventWriter:
    """Renders the events of one stream, or the whole answer, of a chat or of completions."""

    def __init__(self, request: ParsedRequest, settings: MockVllmSettings, answer_id: str) -> None:
        self._request = request
        self._settings = settings
        self._answer_id = answer_id
        kind = "chat.completion.chunk" if request.is_chat else "text_completion"
        head = {
            "id": answer_id,
            "object": kind,
            "created": int(time.time()),
            "model": settings.model,
        }
        self._head = b"data: " + _encode(head)[:-1]
        self._fingerprint = fingerprint(settings)

    def before_tokens(self) -> list[bytes]:
        """Nothing is sent before the first token."""
        return []

    def first(self, num_choices: int) -> list[bytes]:
        """The events that are sent together with the first token: the roles of a chat."""
        return [self._role(choice) for choice in range(num_choices if self._request.is_chat else 0)]

    def end(
        self, num_prompt_tokens: int, num_tokens: int, metrics: Mapping[str, Any] | None
    ) -> list[bytes]:
        """The last events: the usage with the metrics, if requested, and the mark of the end."""
        if not self._request.include_usage:
            return [DONE]
        return [self._last_usage(num_prompt_tokens, num_tokens, metrics), DONE]

    def whole(self, answers: Sequence[tuple[int, AnswerDelta]]) -> bytes:
        """The answer to a request that is not streamed; see `render_whole`."""
        return render_whole(self._request, self._settings, self._answer_id, answers)

    def _role(self, choice: int) -> bytes:
        """The role and, if requested, the prompt's token ids."""
        request = self._request
        ids = _encode(request.prompts[0]) if request.return_token_ids else b"null"
        return (
            self._head
            + b',"choices":[{"index":%d,"delta":{"role":"assistant","content":""},' % choice
            + b'"logprobs":null,"finish_reason":null}]'
            + self._continuous_usage(len(request.prompts[0]), 0)
            + b',"prompt_token_ids":%b,"prompt_text":null}\n\n' % ids
        )

    def delta(self, new: ChoiceDelta) -> list[bytes]:
        """Render the event with new tokens of a choice."""
        request, delta, prompt = self._request, new.delta, new.prompt
        text = _encode(delta.text)
        ids = _encode(delta.ids) if request.return_token_ids else b"null"
        reason = _encode(delta.finish_reason)
        if request.is_chat:
            stop = b""
            if delta.finish_reason is not None:
                stop = b',"stop_reason":' + _encode(delta.stop_reason)
            body = b'"delta":{"content":%b},"logprobs":null,"finish_reason":%b%b,"token_ids":%b' % (
                text,
                reason,
                stop,
                ids,
            )
        else:
            shows_prompt = new.is_first and (request.return_token_ids or request.echo)
            prompt_ids = _encode(prompt) if shows_prompt else b"null"
            if new.is_first:
                text = _encode(_echo(request, prompt) + delta.text)
            body = (
                b'"text":%b,"logprobs":null,"finish_reason":%b,"stop_reason":%b,'
                b'"prompt_token_ids":%b,"token_ids":%b'
                % (text, reason, _encode(delta.stop_reason), prompt_ids, ids)
            )
        end = b"}\n\n"
        if delta.finish_reason is not None and not request.include_usage:
            end = b',"system_fingerprint":"%b"}\n\n' % self._fingerprint.encode()
        usage = self._continuous_usage(len(prompt), new.num_tokens)
        return [b'%b,"choices":[{"index":%d,%b}]%b%b' % (self._head, new.choice, body, usage, end)]

    def _last_usage(
        self, num_prompt_tokens: int, num_tokens: int, metrics: Mapping[str, Any] | None
    ) -> bytes:
        usage = _encode(_usage(num_prompt_tokens, num_tokens))
        return self._head + b',"choices":[],"usage":%b,"system_fingerprint":"%b"%b}\n\n' % (
            usage,
            self._fingerprint.encode(),
            b"" if metrics is None else b',"metrics":' + _encode(metrics),
        )

    def _continuous_usage(self, num_prompt_tokens: int, num_tokens: int) -> bytes:
        if not self._request.continuous_usage:
            return b""
        usage = _usage(num_prompt_tokens, num_tokens)
        if self._request.is_chat:
            usage["completion_tokens_details"] = None
        return b',"usage":' + _encode(usage)


def draft_metrics(accepted_by_step: Sequence[int], draft_length: int) -> dict[str, Any]:
    """The metrics of an answer, from the accepted draft tokens of each of its steps.

    >>> draft_metrics([2, 0], 3)["speculative_decoding"]["acceptance_histogram"]
    [1, 0, 1, 0]
    """
    num_steps, num_accepted = len(accepted_by_step), sum(accepted_by_step)
    num_drafted = num_steps * draft_length
    counts = {
        "mean_acceptance_length": 1 + num_accepted / num_steps if num_steps else 1.0,
        "draft_acceptance_rate": num_accepted / num_drafted if num_drafted else 0.0,
        "acceptance_histogram": [
            sum(accepted == count for accepted in accepted_by_step)
            for count in range(draft_length + 1)
        ],
        "num_spec_steps": num_steps,
        "num_accepted_draft_tokens": num_accepted,
        "num_draft_tokens": num_drafted,
        "num_spec_tokens": draft_length,
    }
    return {"speculative_decoding": counts}


def render_whole(
    request: ParsedRequest,
    settings: MockVllmSettings,
    answer_id: str,
    answers: Sequence[tuple[int, AnswerDelta]],
) -> bytes:
    """Render an answer that is not streamed; `answers` are pairs (prompt index, whole choice)."""
    num_prompt_tokens = sum(map(len, request.prompts))
    num_tokens = sum(len(delta.ids) for _, delta in answers)
    choices = [
        (_chat_choice if request.is_chat else _completion_choice)(request, index, prompt, delta)
        for index, (prompt, delta) in enumerate(answers)
    ]
    if request.sampling.num_logprobs is not None:
        for choice, (prompt, delta) in zip(choices, answers, strict=True):
            choice["logprobs"] = render_logprobs(request, settings, request.prompts[prompt], delta)
    details = {"prompt_tokens_details": None, "completion_tokens_details": None}
    body: dict[str, Any] = {
        "id": answer_id,
        "object": "chat.completion" if request.is_chat else "text_completion",
        "created": int(time.time()),
        "model": settings.model,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": fingerprint(settings),
        "usage": _usage(num_prompt_tokens, num_tokens) | details,
    }
    if request.is_chat:
        body["prompt_logprobs"] = None
        body["prompt_token_ids"] = request.prompts[0] if request.return_token_ids else None
        body["prompt_text"] = None
    body |= {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}
    return _encode(body)


def _chat_choice(request: ParsedRequest, index: int, _: int, delta: AnswerDelta) -> dict[str, Any]:
    message = {"role": "assistant", "content": delta.text} | dict.fromkeys(
        ("refusal", "annotations", "audio", "function_call", "reasoning")
    )
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": delta.finish_reason,
        "stop_reason": delta.stop_reason,
        "token_ids": delta.ids if request.return_token_ids else None,
        "routed_experts": None,
    }


def _completion_choice(
    request: ParsedRequest, index: int, prompt: int, delta: AnswerDelta
) -> dict[str, Any]:
    return {
        "index": index,
        "text": _echo(request, request.prompts[prompt]) + delta.text,
        "logprobs": None,
        "finish_reason": delta.finish_reason,
        "stop_reason": delta.stop_reason,
        "token_ids": delta.ids if request.return_token_ids else None,
        "prompt_logprobs": None,
        "prompt_token_ids": request.prompts[prompt] if request.return_token_ids else None,
        "routed_experts": None,
    }


def _echo(request: ParsedRequest, prompt: Sequence[int]) -> str:
    """Return the prompt's text for `echo`; vLLM omits it if the token ids are requested."""
    is_shown = request.echo and not request.return_token_ids
    return decode(prompt, skip_special_tokens=False) if is_shown else ""


def _usage(num_prompt_tokens: int, num_tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": num_prompt_tokens,
        "total_tokens": num_prompt_tokens + num_tokens,
        "completion_tokens": num_tokens,
    }


def render_models(settings: MockVllmSettings) -> bytes:
    created = int(time.time())
    permission = {
        "id": f"modelperm-{uuid.uuid4().hex[:16]}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    card = {
        "id": settings.model,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": settings.model,
        "parent": None,
        "max_model_len": settings.max_model_len,
        "permission": [permission],
    }
    return _encode({"object": "list", "data": [card]})
