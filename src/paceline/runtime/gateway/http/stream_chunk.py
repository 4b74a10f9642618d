"""`Chunk`: the fields of one event of a stream that the gateway reads, for every route.

Other fields are skipped without being decoded, and no field is changed.
"""

from __future__ import annotations

import msgspec

_ABSENT = msgspec.Raw()
_NO_ERROR = (b"null", b"{}", b"{ }", b'""', b"false")


def is_error(error: msgspec.Raw) -> bool:
    """Whether the field `error` of an answer has one."""
    return bytes(error) not in (b"", *_NO_ERROR)


class ChatDelta(msgspec.Struct):
    """The delta of a chat chunk."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[msgspec.Raw] | None = None
    function_call: msgspec.Raw = _ABSENT
    refusal: str | None = None

    @property
    def has_token(self) -> bool:
        texts = self.content or self.reasoning or self.reasoning_content or self.refusal
        return bool(texts or self.tool_calls) or bytes(self.function_call) not in (b"", b"null")


class Choice(msgspec.Struct):
    """A choice of a chat or completions chunk."""

    index: int = 0
    delta: ChatDelta | None = None
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None


class Chunk(msgspec.Struct):
    """One event of a stream."""

    id: str | None = None
    created: int | float | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    prompt_token_ids: list[int] | None = None
    usage: msgspec.Raw = _ABSENT
    object: str | None = None
    type: str | None = None
    error: msgspec.Raw = _ABSENT
    message: msgspec.Raw = _ABSENT
    detail: msgspec.Raw = _ABSENT
    status: msgspec.Raw = _ABSENT
    is_known: bool = True
    """The fields have the types of this table."""

    @property
    def is_error(self) -> bool:
        """Whether the event says that it is an error."""
        if self.error is not _ABSENT and is_error(self.error):
            return True
        return self.object == "error" or self.type == "error"

    @property
    def explains(self) -> bool:
        """Whether an event without contents has what errors have."""
        fields = (self.message, self.detail, self.status)
        return any(field is not _ABSENT for field in fields)

    @property
    def has_token(self) -> bool:
        """Whether it has part of the answer, or its end: not only a role, or nothing."""
        return any(
            choice.finish_reason
            or choice.text
            or (choice.delta is not None and choice.delta.has_token)
            for choice in self.choices or ()
        )

    @property
    def has_usage(self) -> bool:
        return self.usage is not _ABSENT and bytes(self.usage) != b"null"

    @property
    def is_usage(self) -> bool:
        """Whether it is the event with the usage, which ends a stream that was asked for it."""
        return not self.choices and self.has_usage


_decode = msgspec.json.Decoder(Chunk).decode


def read_chunk(data: bytes) -> Chunk:
    """The chunk in the data of one event. ValueError unless it is a JSON object in UTF-8.

    A chunk whose fields have other types than here is read as far as its errors go.
    """
    try:
        if not data.isascii():
            data.decode()  # strings that are skipped are not checked
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("an event is no JSON") from None
    if not isinstance(fields, dict):
        raise ValueError("an event is no JSON object")
    names = {"usage", "error", "message", "detail", "status"}
    chunk = Chunk(choices=[] if "choices" in fields else None, is_known=False)
    for name in fields.keys() & names:
        setattr(chunk, name, msgspec.Raw(msgspec.json.encode(fields[name])))
    for name in ("object", "type"):
        if isinstance(fields.get(name), str):
            setattr(chunk, name, fields[name])
    return chunk
