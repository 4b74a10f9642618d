"""`ResumableStream`: the state of one stream that another replica may have to continue.

The shell around the decisions of this package: it asks the continuing replica for the text of the
token ids, and returns the request to send and the relay for the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from paceline.runtime.gateway.continuation.continued_relay import ContinuedRelay, max_held_chars
from paceline.runtime.gateway.continuation.eligibility import why_not_continued
from paceline.runtime.gateway.continuation.resume import PATH, resume_body, tokens_left
from paceline.runtime.gateway.continuation.resume_point import find_resume_point, has_text_at_end
from paceline.runtime.gateway.continuation.stream_tail import StreamTail
from paceline.runtime.gateway.continuation.tracked_relay import TrackedRelay
from paceline.runtime.gateway.delivered import AnswerPart, DeliveredAnswer, TokenDelta
from paceline.runtime.gateway.http.event_parser import MAX_EVENT_BYTES
from paceline.runtime.gateway.http.stream_reader import DONE


class CannotContinue(Exception):
    """No replica can continue this stream; the message says why."""


class DetokeniseFailed(Exception):
    """The replica failed to detokenise; another one may do it."""


class AskReplica(Protocol):
    """Sends a JSON request to the continuing replica."""

    async def __call__(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer. May raise `Unreachable` and `Broken`."""
        ...


@dataclass(frozen=True, slots=True)
class Resumption:
    """The request that continues a stream, and the relay for its answer."""

    path: str
    body: bytes
    relay: ContinuedRelay


class ResumableStream:
    """One stream that its client reads; what the client has received of it is in `delivered`."""

    def __init__(
        self,
        request: Mapping[str, Any],
        delivered: DeliveredAnswer,
        *,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        self._request = request
        self._max_event_bytes = max_event_bytes
        self._why_not = why_not_continued(request)
        self._delivered = delivered

    @property
    def why_not(self) -> str | None:
        """Why the stream could not be continued if it broke off now; None when it can."""
        delivered = self._delivered
        if self._why_not is not None or delivered.lost is not None:
            return self._why_not or delivered.lost
        if delivered.head is None or delivered.prompt_ids is None:
            return "the engine does not report token ids"
        return None

    @property
    def is_tracked(self) -> bool:
        """Whether the engine should report token ids: the request is eligible."""
        return self._why_not is None

    @property
    def needs_no_engine(self) -> bool:
        """The answer is complete; only the closing events of the stream are missing."""
        return self._delivered.finish_reason is not None

    @property
    def _may_be_parsed(self) -> bool:
        """Whether a special token may begin what the engine parses; it is no end of an answer."""
        return "messages" in self._request and not self._request.get("ignore_eos")

    def relay(self) -> TrackedRelay:
        """The relay for the first replica's stream."""
        request = self._request
        return TrackedRelay(
            shows_ids=bool(request.get("return_token_ids")),
            max_held_chars=max_held_chars(request),
            closing_part=self.closing_events,
            max_event_bytes=self._max_event_bytes,
        )

    def closing_events(self) -> AnswerPart:
        """The events that a stream with a complete answer lacks.

        ValueError if the usage is among them and is not known.
        """
        delivered = self._delivered
        if delivered.head is None:  # nothing of it could be recorded
            return AnswerPart(DONE)
        num_tokens = len(delivered.ids)
        events = StreamTail(self._request, delivered).render_end(
            None if delivered.lacks_ids else num_tokens
        )
        return AnswerPart(events, TokenDelta(num_tokens, has_usage=events != DONE))

    async def resume(
        self, ask: AskReplica, max_model_len: int | None, extra: Mapping[str, object]
    ) -> Resumption | AnswerPart:
        """The continuation on this replica; or the last part, when no token is left to generate.

        Raises `CannotContinue`, and what `ask` raises.
        """
        delivered = self._delivered
        assert delivered.prompt_ids is not None

        async def detokenise(ids: Sequence[int]) -> str:
            return await _text_of(ask, str(self._request["model"]), ids)

        point = await find_resume_point(
            delivered.prompt_ids,
            delivered.ids,
            delivered.text,
            max_held_chars(self._request),
            detokenise,
        )
        if point is None:
            raise CannotContinue("the token ids do not decode to the text that was sent")
        # A marker may come alone or, in a step of several tokens, together with content.
        if self._may_be_parsed and (
            point.is_before_hidden_text
            or await has_text_at_end(delivered.ids, delivered.num_silent_ids, detokenise)
        ):
            # Another replica would be asked for a completion, which is not parsed.
            raise CannotContinue("the engine may have begun to parse reasoning or a tool call")
        is_greedy = self._request.get("temperature") == 0
        has_ids = bool(self._request.get("return_token_ids"))
        if point.num_ids < len(delivered.ids) and has_ids and not is_greedy:
            raise CannotContinue(
                "the client has received sampled token ids without their text; "
                "another replica may sample others"
            )
        left = tokens_left(
            self._request,
            num_prompt=len(delivered.prompt_ids),
            num_emitted=point.num_ids,
            max_model_len=max_model_len,
        )
        if left is None:
            raise CannotContinue("neither the request nor the replica limits its length")
        relay = ContinuedRelay(
            self._request, delivered, point, max_event_bytes=self._max_event_bytes
        )
        if left <= 0:
            return relay.finish("length")
        kept_ids = delivered.ids[: point.num_ids]
        body = resume_body(self._request, delivered.prompt_ids, kept_ids, left, extra)
        return Resumption(PATH, body, relay)


async def _text_of(ask: AskReplica, model: str, ids: Sequence[int]) -> str:
    status, answer = await ask(
        "/detokenize", msgspec.json.encode({"model": model, "tokens": list(ids)})
    )
    if status >= 500:
        raise DetokeniseFailed(f"/detokenize answered {status}")
    try:
        text = msgspec.json.decode(answer)["prompt"] if status == 200 else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise CannotContinue(f"the replica does not detokenise (status {status})")
    return text
