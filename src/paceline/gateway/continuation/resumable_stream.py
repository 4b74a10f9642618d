"""What does a stream need so that it can go on elsewhere, and how does it go on?

The shell around the decisions of this package: asks the other replica for the text of the ids, and
says what to send it and how its answer is to be put into the client's stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from paceline.gateway.continuation.continued_relay import ContinuedRelay, StreamTail, max_held_chars
from paceline.gateway.continuation.eligibility import why_not_continued
from paceline.gateway.continuation.resume import PATH, resume_body, tokens_left
from paceline.gateway.continuation.resume_point import find_seam
from paceline.gateway.continuation.token_history import TokenHistory
from paceline.gateway.continuation.tracked_relay import TrackedRelay


class CannotContinue(Exception):
    """This stream cannot go on, here or anywhere; the message says why."""


class DetokeniseFailed(Exception):
    """The replica failed to detokenise; another one may do it."""


class AskReplica(Protocol):
    """Sends a JSON request to the replica that is to go on."""

    async def __call__(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer. May raise `Unreachable` and `Broken`."""
        ...


@dataclass(frozen=True, slots=True)
class Resumption:
    """How a stream goes on."""

    path: str
    body: bytes
    relay: ContinuedRelay


class ResumableStream:
    """Of one stream that may have to be continued. A fresh attempt begins a fresh one."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self._why_not = why_not_continued(request)
        self._trail = TokenHistory()

    @property
    def why_not(self) -> str | None:
        """Why the stream could not be continued if it broke off now; None when it can."""
        if self._why_not is not None or self._trail.lost is not None:
            return self._why_not or self._trail.lost
        return None if self._trail.can_be_continued else "the engine does not tell token ids"

    @property
    def is_tracked(self) -> bool:
        """Whether it pays to ask the engine for token ids."""
        return self._why_not is None

    @property
    def needs_no_engine(self) -> bool:
        """The answer is whole; only what stands behind it in the stream is missing."""
        return self._trail.finish_reason is not None

    @property
    def num_tokens(self) -> int:
        """Tokens of the answer until now."""
        return len(self._trail.emitted_ids)

    def relay(self) -> TrackedRelay:
        """For the stream as it comes from the first replica."""
        return TrackedRelay(self._trail, shows_ids=bool(self._request.get("return_token_ids")))

    def closing_events(self) -> bytes:
        """What is missing of a stream whose answer is whole."""
        return StreamTail(self._request, self._trail).render_end()

    async def resume(
        self, ask: AskReplica, max_model_len: int | None, extra: Mapping[str, object]
    ) -> Resumption | bytes:
        """How this replica is to go on; or the last events, when no token is left to generate.

        Raises `CannotContinue`, and what `ask` raises.
        """
        trail = self._trail
        assert trail.prompt_ids is not None

        async def detokenise(ids: Sequence[int]) -> str:
            return await _text_of(ask, str(self._request["model"]), ids)

        num_emitted = len(trail.emitted_ids)
        seam = await find_seam(
            trail.prompt_ids,
            trail.emitted_ids,
            trail.delivered_text,
            max_held_chars(self._request),
            detokenise,
        )
        if seam is None:
            raise CannotContinue("the token ids do not give the text that was sent")
        is_greedy = self._request.get("temperature") == 0
        if seam.num_ids < num_emitted and self._request.get("return_token_ids") and not is_greedy:
            raise CannotContinue("sampled ids that have no text yet were shown and may not recur")
        left = tokens_left(
            self._request,
            num_prompt=len(trail.prompt_ids),
            num_emitted=seam.num_ids,
            max_model_len=max_model_len,
        )
        if left is None:
            raise CannotContinue("neither the request nor the replica says how long it may get")
        relay = ContinuedRelay(self._request, trail, seam)
        if left <= 0:
            return relay.finish("length")
        body = resume_body(self._request, trail.prompt_ids, trail.emitted_ids, left, extra)
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
