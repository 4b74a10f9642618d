"""How does one request's answer go from the engine to its peer?

A `Reply` owns the request's sequences: it aborts them when the peer leaves. While a peer does not
read, the engine goes on, and what it makes is sent as one event once the peer reads again, as
vLLM does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from paceline.standin.answer import Piece, Writing
from paceline.standin.asked import Asked
from paceline.standin.dialect import DONE, EventWriter, render_whole
from paceline.standin.engine import Sequence
from paceline.standin.settings import StandInSettings
from paceline.standin.wire import Exchange


class Reply:
    """One request being answered."""

    def __init__(
        self, asked: Asked, settings: StandInSettings, identity: str, exchange: Exchange
    ) -> None:
        self.asked = asked
        self._settings = settings
        self._identity = identity
        self._exchange = exchange
        num_choices = len(asked.seeds)
        self._prompt_of = [place for place in range(len(asked.prompts)) for _ in range(num_choices)]
        self._held: dict[int, Piece] = {}
        self._whole: list[Piece | None] = [None] * len(self._prompt_of)
        self._num_tokens = [0] * len(self._prompt_of)
        self._num_open = len(self._prompt_of)
        self._events = EventWriter(asked, settings, identity)
        self.on_first_token: Callable[[], None] | None = None
        self.on_finished: Callable[[], None] | None = None
        self.sequences = [
            self._sequence(choice, prompt) for choice, prompt in enumerate(self._prompt_of)
        ]
        if asked.stream:
            exchange.on_writable = self._flush

    @property
    def num_tokens(self) -> int:
        """Tokens made so far, all choices together."""
        return sum(self._num_tokens)

    def _sequence(self, choice: int, prompt: int) -> Sequence:
        asked = self.asked
        sampling = replace(asked.sampling, seed=asked.seeds[choice % len(asked.seeds)])
        writing = Writing(asked.prompts[prompt], sampling, self._settings.eos_every_tokens)
        return Sequence(asked.prompts[prompt], writing, lambda piece: self._take(choice, piece))

    def _take(self, choice: int, piece: Piece) -> None:
        is_first = not any(self._num_tokens)
        self._num_tokens[choice] += len(piece.ids)
        if is_first and self.on_first_token is not None:
            self.on_first_token()
        if piece.finish_reason is not None:
            self._num_open -= 1
        if not self.asked.stream:
            self._whole[choice] = _joined(self._whole[choice], piece)
            if not self._num_open:
                self._end_whole()
        elif self._held or not self._exchange.is_writable:
            self._held[choice] = _joined(self._held.get(choice), piece)
        else:
            self._send({choice: piece})

    def _flush(self) -> None:
        held, self._held = self._held, {}
        if held:
            self._send(held)

    def _send(self, pieces: dict[int, Piece]) -> None:
        asked = self.asked
        events = []
        if not self._exchange.is_begun:
            self._exchange.begin_stream()
            if asked.is_chat:
                events += [self._events.first(choice) for choice in range(len(self._prompt_of))]
        for choice, piece in pieces.items():
            count = self._num_tokens[choice]
            events.append(
                self._events.piece(
                    choice,
                    piece,
                    count,
                    asked.prompts[self._prompt_of[choice]],
                    is_first=count == len(piece.ids),
                )
            )
        if self._num_open:
            self._exchange.send(*events)
            return
        if asked.include_usage:
            num_prompt_tokens = sum(map(len, asked.prompts))
            events.append(self._events.usage(num_prompt_tokens, self.num_tokens))
        self._exchange.send(*events, DONE)
        self._exchange.end_stream()
        self._finish()

    def _end_whole(self) -> None:
        answers = [
            (prompt, piece)
            for prompt, piece in zip(self._prompt_of, self._whole, strict=True)
            if piece is not None
        ]
        self._exchange.respond(
            200, render_whole(self.asked, self._settings, self._identity, answers)
        )
        self._finish()

    def _finish(self) -> None:
        if self.on_finished is not None:
            self.on_finished()


def _joined(before: Piece | None, piece: Piece) -> Piece:
    if before is None:
        return piece
    return Piece(
        before.ids + piece.ids, before.text + piece.text, piece.finish_reason, piece.stop_reason
    )
