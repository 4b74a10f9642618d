"""Check that an answer in one piece is one.

A body with status 200 may be an error, a page of a proxy, half a document, or nothing. An answer is
a JSON object with the route's own content; nothing else reaches a client.
"""

from __future__ import annotations

import msgspec


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


class _Answer(msgspec.Struct):
    """The fields that tell an answer from an error. Others are checked to be JSON and skipped."""

    error: msgspec.Raw = msgspec.Raw()
    object: str | None = None
    choices: list[_Choice] | None = None
    data: list[msgspec.Raw] | None = None
    output: list[msgspec.Raw] | None = None


_decode = msgspec.json.Decoder(_Answer).decode
_NO_ERROR = (b"", b"null", b"{}", b'""', b"false")


def error_in(body: bytes, content: str) -> bytes | None:
    """The error that an answer with status 200 is; None for an answer.

    `content` is the field with the route's content: `choices`, `data` or `output`. ValueError when
    the body is neither.
    """
    try:
        answer = _decode(body)
        body.decode()  # skipped strings were not checked
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(_what_it_is(body)) from None
    if bytes(answer.error) not in _NO_ERROR or answer.object == "error":
        return body
    if any(choice.finish_reason == "abort" for choice in answer.choices or ()):
        return b'{"error":{"message":"the engine ended","code":503}}'
    if getattr(answer, content) is None:
        raise ValueError(f"the answer has no {content}")
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
