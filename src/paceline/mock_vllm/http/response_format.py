"""How does vLLM 0.32 write an answer down, byte for byte?

Keys, their order and their nulls are those of vLLM's protocol classes as its serving classes fill
them in (entrypoints/openai/{chat_completion,completion}). Ids, times and fingerprints aside, the
tests compare this with recorded answers of vLLM.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from paceline.mock_vllm.http.request_parser import ParsedRequest
from paceline.mock_vllm.model.answer import Piece
from paceline.mock_vllm.model.vocabulary import decode
from paceline.mock_vllm.settings import MockVllmSettings

VLLM_VERSION = "0.32.0"
DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


def fingerprint(settings: MockVllmSettings) -> str:
    digest = hashlib.sha256(f"{settings.model}/{settings.max_model_len}".encode()).hexdigest()
    return f"vllm-{VLLM_VERSION}-{digest[:8]}"


def render_error(status: int, message: str, kind: str, param: str | None = None) -> bytes:
    return _encode({"error": {"message": message, "type": kind, "param": param, "code": status}})


def render_error_event(status: int, message: str, kind: str) -> bytes:
    """The event that vLLM writes into a stream; `json.dumps` puts spaces after its marks."""
    text = _encode(message).decode()
    return (
        f'data: {{"error": {{"message": {text}, "type": "{kind}", "param": null, '
        f'"code": {status}}}}}\n\n'
    ).encode()


def answer_id(asked: ParsedRequest, request_id: str) -> str:
    return f"{'chatcmpl' if asked.is_chat else 'cmpl'}-{request_id or uuid.uuid4().hex[:16]}"


class EventWriter:
    """Renders the events of one stream."""

    def __init__(self, asked: ParsedRequest, settings: MockVllmSettings, identity: str) -> None:
        self._asked = asked
        kind = "chat.completion.chunk" if asked.is_chat else "text_completion"
        head = {
            "id": identity,
            "object": kind,
            "created": int(time.time()),
            "model": settings.model,
        }
        self._head = b"data: " + _encode(head)[:-1]
        self._fingerprint = fingerprint(settings)

    def first(self, choice: int) -> bytes:
        """A chat's first event: the role, and the prompt's ids where asked for."""
        asked = self._asked
        ids = _encode(asked.prompts[0]) if asked.return_token_ids else b"null"
        return (
            self._head
            + b',"choices":[{"index":%d,"delta":{"role":"assistant","content":""},' % choice
            + b'"logprobs":null,"finish_reason":null}]'
            + self._continuous_usage(len(asked.prompts[0]), 0)
            + b',"prompt_token_ids":%b,"prompt_text":null}\n\n' % ids
        )

    def piece(
        self, choice: int, piece: Piece, num_tokens: int, prompt: Sequence[int], *, is_first: bool
    ) -> bytes:
        """An event with some of a choice's tokens; `num_tokens` counts all of it until here."""
        asked = self._asked
        text = _encode(piece.text)
        ids = _encode(piece.ids) if asked.return_token_ids else b"null"
        reason = _encode(piece.finish_reason)
        if asked.is_chat:
            stop = b""
            if piece.finish_reason is not None:
                stop = b',"stop_reason":' + _encode(piece.stop_reason)
            body = b'"delta":{"content":%b},"logprobs":null,"finish_reason":%b%b,"token_ids":%b' % (
                text,
                reason,
                stop,
                ids,
            )
        else:
            shows_prompt = is_first and (asked.return_token_ids or asked.echo)
            prompt_ids = _encode(prompt) if shows_prompt else b"null"
            if is_first:
                text = _encode(_echo(asked, prompt) + piece.text)
            body = (
                b'"text":%b,"logprobs":null,"finish_reason":%b,"stop_reason":%b,'
                b'"prompt_token_ids":%b,"token_ids":%b'
                % (text, reason, _encode(piece.stop_reason), prompt_ids, ids)
            )
        end = b"}\n\n"
        if piece.finish_reason is not None and not asked.include_usage:
            end = b',"system_fingerprint":"%b"}\n\n' % self._fingerprint.encode()
        return b'%b,"choices":[{"index":%d,%b}]%b%b' % (
            self._head,
            choice,
            body,
            self._continuous_usage(len(prompt), num_tokens),
            end,
        )

    def usage(self, num_prompt_tokens: int, num_tokens: int) -> bytes:
        """The last event where usage was asked for."""
        usage = _encode(_usage(num_prompt_tokens, num_tokens))
        return self._head + b',"choices":[],"usage":%b,"system_fingerprint":"%b"}\n\n' % (
            usage,
            self._fingerprint.encode(),
        )

    def _continuous_usage(self, num_prompt_tokens: int, num_tokens: int) -> bytes:
        if not self._asked.continuous_usage:
            return b""
        usage = _usage(num_prompt_tokens, num_tokens)
        if self._asked.is_chat:
            usage["completion_tokens_details"] = None
        return b',"usage":' + _encode(usage)


def render_whole(
    asked: ParsedRequest,
    settings: MockVllmSettings,
    identity: str,
    answers: Sequence[tuple[int, Piece]],
) -> bytes:
    """An answer that is not streamed; `answers` are (index of the prompt, whole choice)."""
    num_prompt_tokens = sum(map(len, asked.prompts))
    num_tokens = sum(len(piece.ids) for _, piece in answers)
    choices = [
        (_chat_choice if asked.is_chat else _completion_choice)(asked, index, prompt, piece)
        for index, (prompt, piece) in enumerate(answers)
    ]
    details = {"prompt_tokens_details": None, "completion_tokens_details": None}
    body: dict[str, Any] = {
        "id": identity,
        "object": "chat.completion" if asked.is_chat else "text_completion",
        "created": int(time.time()),
        "model": settings.model,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": fingerprint(settings),
        "usage": _usage(num_prompt_tokens, num_tokens) | details,
    }
    if asked.is_chat:
        body["prompt_logprobs"] = None
        body["prompt_token_ids"] = asked.prompts[0] if asked.return_token_ids else None
        body["prompt_text"] = None
    body |= {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}
    return _encode(body)


def _chat_choice(asked: ParsedRequest, index: int, _: int, piece: Piece) -> dict[str, Any]:
    message = {"role": "assistant", "content": piece.text} | dict.fromkeys(
        ("refusal", "annotations", "audio", "function_call", "reasoning")
    )
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": piece.finish_reason,
        "stop_reason": piece.stop_reason,
        "token_ids": piece.ids if asked.return_token_ids else None,
        "routed_experts": None,
    }


def _completion_choice(
    asked: ParsedRequest, index: int, prompt: int, piece: Piece
) -> dict[str, Any]:
    return {
        "index": index,
        "text": _echo(asked, asked.prompts[prompt]) + piece.text,
        "logprobs": None,
        "finish_reason": piece.finish_reason,
        "stop_reason": piece.stop_reason,
        "token_ids": piece.ids if asked.return_token_ids else None,
        "prompt_logprobs": None,
        "prompt_token_ids": asked.prompts[prompt] if asked.return_token_ids else None,
        "routed_experts": None,
    }


def _echo(asked: ParsedRequest, prompt: Sequence[int]) -> str:
    """The prompt's text, which vLLM leaves out where it gives the ids."""
    is_shown = asked.echo and not asked.return_token_ids
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
