"""`DeliveredAnswer`: what the client of one request has really received of its answer.

A part of an answer counts once the server's `send` has returned: before that it may wait for a
client that reads slowly, and is lost when the attempt ends meanwhile. `http.response` commits each
part when it is sent, and nothing else changes a `DeliveredAnswer`. Continuation, the failure policy
and the counts of tokens read it.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from paceline.runtime.gateway.usage import Usage


@dataclass(frozen=True, slots=True)
class ChunkHead:
    """The fields that every chunk of one stream repeats."""

    id: str
    created: int
    model: str


class TokenDelta(msgspec.Struct, frozen=True, gc=False):
    """The tokens that one part of a stream adds to the answer, and their text."""

    start: int
    """Index of the first id in the answer; ids that were there from this index on are replaced."""
    ids: Sequence[int] = ()
    text: str = ""
    finish_reason: str | None = None
    head: ChunkHead | None = None
    prompt_ids: Sequence[int] | None = None
    has_usage: bool = False
    """The part has the chunk with the usage."""
    lost: str | None = None
    """Why the part has more than is recorded here; None when everything is recorded."""
    has_all_ids: bool = False
    """Whether the part's ids are recorded nevertheless; without effect unless something is lost."""
    num_silent_ids: int = 0
    """Ids at the end that came without content: the engine parses them, or they have no text."""


class AnswerPart(msgspec.Struct, frozen=True, gc=False):
    """Bytes for the client, and what they mean. Parts without bytes are not sent."""

    data: bytes = b""
    tokens: TokenDelta | None = None
    """None where tokens are not recorded."""
    is_comment: bool = False
    """Lines that clients skip, and nothing else."""
    usage: Usage | None = None
    """As reported by the engine so far; None where it has not."""


NOTHING = AnswerPart()


class DeliveredAnswer:
    """The parts that were sent, in order. Four bytes per token, one to four per character.

    >>> delivered = DeliveredAnswer()
    >>> delivered.commit(AnswerPart(b"...", TokenDelta(0, [7, 8], "ab")))
    >>> delivered.commit(AnswerPart(b"...", TokenDelta(1, [9], "c")))
    >>> list(delivered.ids), delivered.text
    ([7, 9], 'abc')
    """

    __slots__ = (
        "_reported_usage", "_text", "finish_reason", "has_data", "has_usage", "head", "ids",
        "lacks_ids", "lost", "num_silent_ids", "prompt_ids",
    )  # fmt: skip

    def __init__(self) -> None:
        self.has_data = False
        """The client has part of the answer, not only comments."""
        self.head: ChunkHead | None = None
        """None until the first chunk whose tokens are recorded."""
        self.prompt_ids: Sequence[int] | None = None
        """None until the engine has reported them."""
        self.ids = array("I")
        """Ids of the answer, also those whose text the engine holds back. Read only."""
        self.finish_reason: str | None = None
        """Not None: the answer has all its tokens; only usage and [DONE] may be missing."""
        self.has_usage = False
        """The client has the chunk with the usage."""
        self.lost: str | None = None
        """Why part of the answer is not recorded; None when `ids` and `text` are everything."""
        self.num_silent_ids = 0
        """Ids at the end that came without content; see `TokenDelta.num_silent_ids`."""
        self.lacks_ids = False
        """`ids` are not those of the whole answer: tokens came without."""
        self._reported_usage: Usage | None = None
        self._text = io.StringIO()  # a string for each chunk would take 60 bytes per token

    @property
    def text(self) -> str:
        """The text of the answer."""
        return self._text.getvalue()

    @property
    def usage(self) -> Usage | None:
        """Tokens of prompt and answer; None where neither ids nor the engine's usage say it.

        Ids come first: after a continuation, the last engine counts only its part of the answer.
        """
        reported = self._reported_usage
        if self.lacks_ids or not self.ids:
            return reported
        return Usage(
            len(self.prompt_ids or ()),
            len(self.ids),
            None if reported is None else reported.cached_tokens,
        )

    def commit(self, part: AnswerPart) -> None:
        """The client has received this part. Called by `ClientResponse` alone."""
        self.has_data = True
        self._reported_usage = part.usage or self._reported_usage
        if part.tokens is not None:
            self._commit_tokens(part.tokens)

    def _commit_tokens(self, delta: TokenDelta) -> None:
        if self.head is None:
            self.head = delta.head
        if delta.prompt_ids is not None:
            self.prompt_ids = array("I", delta.prompt_ids)
        if delta.start < len(self.ids):
            del self.ids[delta.start :]
            self.num_silent_ids = 0  # another replica generates them, without a parser
        if delta.num_silent_ids < len(delta.ids):
            self.num_silent_ids = 0
        self.num_silent_ids += delta.num_silent_ids
        self.ids.extend(delta.ids)
        self._text.write(delta.text)
        self.finish_reason = delta.finish_reason or self.finish_reason
        self.has_usage = self.has_usage or delta.has_usage
        self.lost = self.lost or delta.lost
        if delta.lost is not None and not delta.has_all_ids:
            self.lacks_ids = True
