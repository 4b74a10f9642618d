"""`ResumableStream`: the state of one stream that another replica may have to continue.

The shell around the decisions of this package: it asks the continuing replica for the text of the
token ids, and returns the request to send and the relay for the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from paceline.gateway.continuation.continued_relay import ContinuedRelay, StreamTail, max_held_chars
from paceline.gateway.continuation.eligibility import why_not_continued
from paceline.gateway.continuation.resume import PATH, resume_body, tokens_left
from paceline.gateway.continuation.resume_point import find_resume_point
from paceline.gateway.continuation.token_history import TokenHistory
from paceline.gateway.continuation.tracked_relay import TrackedRelay


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
    """The state of one stream. An attempt that begins the answer anew needs a new object."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self._why_not = why_not_continued(request)
        self._history = TokenHistory()

    @property
    def why_not(self) -> str | None:
        """Why the stream could not be continued if it broke off now; None when it can."""
        if self._why_not is not None or self._history.lost is not None:
            return self._why_not or self._history.lost
        return None if self._history.can_be_continued else "the engine does not report token ids"

    @property
    def is_tracked(self) -> bool:
        """Whether the engine should report token ids: the request is eligible."""
        return self._why_not is None

    @property
    def needs_no_engine(self) -> bool:
        """The answer is complete; only the closing events of the stream are missing."""
        return self._history.finish_reason is not None

    @property
    def num_tokens(self) -> int:
        """Tokens of the answer so far."""
        return len(self._history.emitted_ids)

    def relay(self) -> TrackedRelay:
        """The relay for the first replica's stream."""
        return TrackedRelay(self._history, shows_ids=bool(self._request.get("return_token_ids")))

    def closing_events(self) -> bytes:
        """The events that a stream with a complete answer lacks."""
        return StreamTail(self._request, self._history).render_end()

    async def resume(
        self, ask: AskReplica, max_model_len: int | None, extra: Mapping[str, object]
    ) -> Resumption | bytes:
        """The continuation on this replica; or the last events, when no token is left to generate.

        Raises `CannotContinue`, and what `ask` raises.
        """
        history = self._history
        assert history.prompt_ids is not None

        async def detokenise(ids: Sequence[int]) -> str:
            return await _text_of(ask, str(self._request["model"]), ids)

        num_emitted = len(history.emitted_ids)
        point = await find_resume_point(
            history.prompt_ids,
            history.emitted_ids,
            history.delivered_text,
            max_held_chars(self._request),
            detokenise,
        )
        if point is None:
            raise CannotContinue("the token ids do not decode to the text that was sent")
        is_greedy = self._request.get("temperature") == 0
        if point.num_ids < num_emitted and self._request.get("return_token_ids") and not is_greedy:
            raise CannotContinue(
                "the client has received sampled token ids without their text; "
                "another replica may sample others"
            )
        left = tokens_left(
            self._request,
            num_prompt=len(history.prompt_ids),
            num_emitted=point.num_ids,
            max_model_len=max_model_len,
        )
        if left is None:
            raise CannotContinue("neither the request nor the replica limits its length")
        relay = ContinuedRelay(self._request, history, point)
        if left <= 0:
            return relay.finish("length")
        body = resume_body(self._request, history.prompt_ids, history.emitted_ids, left, extra)
        return Resumption(PATH, body, relay)


async def _text_of(ask: AskReplica, model: str, ids: Sequence[int]) -> str:
    status, answer = await ask(
        "/detokenize", msgspec.json.encode({"model": model, "tokens": list(ids)})
    )
    if status >= 500:
        raise DetokeniseFailed(f"/detokenize answered {status}")
    try:
        text = msgspec.json.decode(answer)["prompt"] if status == 200 else None
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise CannotContinue(f"the replica does not detokenise (status {status})")
    return text
