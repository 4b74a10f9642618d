"""Check that an answer in one piece is one.

A body with status 200 may be an error, a page of a proxy, half a document, or nothing. An answer is
a JSON object with the route's own content; nothing else reaches a client.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from paceline.runtime.gateway.http.stream_chunk import is_error
from paceline.runtime.gateway.http.stream_reader import ABORTED


class _Choice(msgspec.Struct):
    message: dict[str, msgspec.Raw] | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Answer(msgspec.Struct):
    """The fields that tell an answer from an error. Others are checked to be JSON and skipped."""

    error: msgspec.Raw = msgspec.Raw()
    object: str | None = None
    status: msgspec.Raw = msgspec.Raw()


class _Choices(_Answer):
    choices: list[_Choice] | None = None


class _Data(_Answer):
    data: list[msgspec.Raw] | None = None


class _Output(_Answer):
    output: list[msgspec.Raw] | None = None


_DECODERS: Mapping[str, msgspec.json.Decoder[_Choices | _Data | _Output]] = {
    "choices": msgspec.json.Decoder(type=_Choices),
    "data": msgspec.json.Decoder(type=_Data),
    "output": msgspec.json.Decoder(type=_Output),
}


def error_in(body: bytes, content: str) -> bytes | None:
    """The error that an answer with status 200 is; None for an answer.

    `content` is the field with the route's content: `choices`, `data` or `output`. ValueError when
    the body is neither.
    """
    try:
        answer = _DECODERS[content].decode(body)
        body.decode()  # skipped strings were not checked
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(_what_it_is(body)) from None
    if is_error(answer.error) or answer.object == "error" or bytes(answer.status) == b'"failed"':
        return body
    if getattr(answer, content) is None:
        raise ValueError(f"the answer has no {content}")
    if isinstance(answer, _Data) and not answer.data:
        raise ValueError("the answer has no data")
    for choice in answer.choices or () if isinstance(answer, _Choices) else ():
        if choice.finish_reason in ("abort", "error"):
            return ABORTED
        if choice.message is None and choice.text is None:
            raise ValueError("a choice of the answer has neither message nor text")
    return None


def _what_it_is(body: bytes) -> str:
    if not body.strip():
        return "the answer is empty"
    if body.lstrip().startswith(b"<"):
        return "the answer is a page, not JSON"
    return "the answer is not whole JSON of this API"


def looks_whole(start: bytes) -> bool:
    """Whether an answer that begins so is a document rather than a stream of events."""
    return start.lstrip(b" \t\r\n\xef\xbb\xbf")[:1] in (b"{", b"[", b"<", b'"')
