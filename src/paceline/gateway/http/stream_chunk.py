"""`Chunk`: the fields of one event of a stream that the gateway reads, for every route.

Other fields are skipped without being decoded, and no field is changed.
"""

from __future__ import annotations

import msgspec

_ABSENT = msgspec.Raw()
_NO_ERROR = (b"", b"null", b"{}", b'""', b"false")


class ChatDelta(msgspec.Struct):
    """The delta of a chat chunk."""

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


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
    is_known: bool = True
    """The fields have the types of this table."""

    @property
    def is_error(self) -> bool:
        """Whether the event is an error, in one of the forms that servers use."""
        if self.error is not _ABSENT and bytes(self.error) not in _NO_ERROR:
            return True
        if self.object == "error" or self.type == "error":
            return True
        has_contents = self.choices is not None or self.type is not None or self.has_usage
        return not has_contents and (self.message is not _ABSENT or self.detail is not _ABSENT)

    @property
    def is_role(self) -> bool:
        """Whether it only opens the messages of a chat: the role, and no content yet."""
        choices = self.choices or []
        return bool(choices) and all(
            choice.delta is not None
            and choice.delta.role is not None
            and not (choice.delta.content or choice.delta.tool_calls or choice.finish_reason)
            and not (choice.delta.reasoning or choice.delta.reasoning_content)
            for choice in choices
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
    """The chunk in the data of one event. ValueError unless it is a JSON object.

    A chunk whose fields have other types than here is read as far as its errors go.
    """
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("an event is no JSON") from None
    if not isinstance(fields, dict):
        raise ValueError("an event is no JSON object")
    kind, error = fields.get("object"), fields.get("error")
    return Chunk(
        object=kind if isinstance(kind, str) else None,
        error=msgspec.Raw(msgspec.json.encode(error)),
        is_known=False,
    )
