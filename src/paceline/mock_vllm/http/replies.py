"""How does one request's answer go from the engine to its peer?

While a peer does not read, the engine goes on, and what it makes is sent as one event once the
peer reads again, as vLLM does.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from paceline.mock_vllm.engine.engine import Sequence
from paceline.mock_vllm.http.request_parser import ParsedRequest
from paceline.mock_vllm.http.response_format import DONE, EventWriter, render_whole
from paceline.mock_vllm.http.wire import Exchange
from paceline.mock_vllm.model.answer import Piece, Writing
from paceline.mock_vllm.model.vocabulary import pack_ids
from paceline.mock_vllm.settings import MockVllmSettings


class AnswerSender:
    """One request being answered.

    `on_first_token` and `on_finished` are called once each; `on_progress` after every event that
    went out and before what ends the answer. It returns False when the answer was broken off:
    nothing more is sent then.
    """

    def __init__(
        self, asked: ParsedRequest, settings: MockVllmSettings, identity: str, exchange: Exchange
    ) -> None:
        self.asked = asked
        self.exchange = exchange
        self._settings = settings
        self._identity = identity
        self._prompt_of = [place for place in range(len(asked.prompts)) for _ in asked.seeds]
        self._held: dict[int, Piece] = {}
        self._whole: list[Piece | None] = [None] * len(self._prompt_of)
        self._num_made = [0] * len(self._prompt_of)
        self._num_open = len(self._prompt_of)
        self._events = EventWriter(asked, settings, identity)
        self._is_over = False
        self._is_stalled = False
        self.num_sent_tokens = 0
        """Of a stream: tokens that went out. Of a whole answer: tokens made until now, all of
        which go out at the end."""
        self.sent_crc = zlib.crc32(b"")
        """CRC-32 of those tokens' ids, with one choice."""
        self.on_first_token: Callable[[], None] = _nothing
        self.on_progress: Callable[[], bool] = _goes_on
        self.on_finished: Callable[[], None] = _nothing
        self.sequences = [
            self._sequence(choice, prompt) for choice, prompt in enumerate(self._prompt_of)
        ]
        if asked.stream:
            exchange.on_writable = self._flush

    def _sequence(self, choice: int, prompt: int) -> Sequence:
        asked = self.asked
        sampling = replace(asked.sampling, seed=asked.seeds[choice % len(asked.seeds)])
        ids = asked.prompts[prompt]
        writing = Writing(ids, sampling, self._settings.eos_every_tokens)
        return Sequence(ids, asked.cache_salt, writing, partial(self._take, choice))

    def break_off(self) -> None:
        """Send nothing more."""
        self._is_over = True

    def stall(self) -> None:
        """Send nothing more until `resume`."""
        self._is_stalled = True

    def resume(self) -> None:
        self._is_stalled = False
        self._flush()

    def _take(self, choice: int, piece: Piece) -> None:
        if self._is_over:
            return
        if not any(self._num_made):
            self.on_first_token()
            if not self._begin():
                return
        self._num_made[choice] += len(piece.ids)
        if piece.finish_reason is not None:
            self._num_open -= 1
        if not self.asked.stream:
            self._whole[choice] = _joined(self._whole[choice], piece)
            self._count(piece)
            if self.on_progress() and not self._num_open:
                self._end()
        elif self._held or not self._may_send:
            self._held[choice] = _joined(self._held.get(choice), piece)
        else:
            self._send({choice: piece})

    @property
    def _may_send(self) -> bool:
        return self.exchange.is_writable and not self._is_stalled

    def _begin(self) -> bool:
        if self.asked.stream:
            self.exchange.begin_stream()
            if self.asked.is_chat:
                choices = range(len(self._prompt_of))
                self.exchange.send(*(self._events.first(choice) for choice in choices))
        return self.on_progress()

    def _flush(self) -> None:
        if self._is_over or not self._may_send:
            return
        held, self._held = self._held, {}
        if held:
            self._send(held)
        elif not self._num_open:
            self._end()

    def _send(self, pieces: dict[int, Piece]) -> None:
        asked = self.asked
        events = []
        for choice, piece in pieces.items():
            count = self._num_made[choice]
            prompt = asked.prompts[self._prompt_of[choice]]
            is_first = count == len(piece.ids)
            events.append(self._events.piece(choice, piece, count, prompt, is_first=is_first))
            self._count(piece)
        self.exchange.send(*events)
        if self.on_progress() and not self._num_open:
            self._end()

    def _count(self, piece: Piece) -> None:
        self.num_sent_tokens += len(piece.ids)
        self.sent_crc = zlib.crc32(pack_ids(piece.ids), self.sent_crc)

    def _end(self) -> None:
        """All tokens are out: what comes after them, unless that is to wait."""
        if self._is_stalled:
            return
        self._is_over = True
        self.on_finished()
        if not self.asked.stream:
            self.exchange.respond(200, self._render_whole())
            return
        events = [DONE]
        if self.asked.include_usage:
            num_prompt_tokens = sum(map(len, self.asked.prompts))
            events.insert(0, self._events.usage(num_prompt_tokens, sum(self._num_made)))
        self.exchange.send(*events)
        self.exchange.end_stream()

    def _render_whole(self) -> bytes:
        answers = [
            (prompt, piece)
            for prompt, piece in zip(self._prompt_of, self._whole, strict=True)
            if piece is not None
        ]
        return render_whole(self.asked, self._settings, self._identity, answers)


def _nothing() -> None:
    pass


def _goes_on() -> bool:
    return True


def _joined(before: Piece | None, piece: Piece) -> Piece:
    if before is None:
        return piece
    return Piece(
        before.ids + piece.ids, before.text + piece.text, piece.finish_reason, piece.stop_reason
    )
