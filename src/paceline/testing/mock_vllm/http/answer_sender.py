"""Send the tokens of one request from the engine to its client.

While the client does not read, the engine continues. The tokens generated in the meantime are sent
as one event when the client reads again, as in vLLM.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from paceline.testing.mock_vllm.engine.engine import Sequence
from paceline.testing.mock_vllm.http.request_parser import ParsedRequest
from paceline.testing.mock_vllm.http.response_format import ChoiceDelta, EventWriter, draft_metrics
from paceline.testing.mock_vllm.http.responses import ResponseWriter
from paceline.testing.mock_vllm.http.wire import Exchange
from paceline.testing.mock_vllm.model.answer import AnswerDelta, AnswerGenerator
from paceline.testing.mock_vllm.model.speculation import DraftVerdicts
from paceline.testing.mock_vllm.model.vocabulary import pack_ids
from paceline.testing.mock_vllm.settings import MockVllmSettings


class AnswerSender:
    """Sends the answer of one request.

    `on_first_token` and `on_finished` are called once each. `on_progress` is called after every
    event and before the end of the answer; it returns False if the answer was stopped, and then
    nothing more is sent.
    """

    def __init__(
        self, request: ParsedRequest, settings: MockVllmSettings, answer_id: str, exchange: Exchange
    ) -> None:
        self.request = request
        self.exchange = exchange
        self._settings = settings
        self._prompt_of = [index for index in range(len(request.prompts)) for _ in request.seeds]
        self._held: dict[int, AnswerDelta] = {}
        self._collected: list[AnswerDelta | None] = [None] * len(self._prompt_of)
        self._num_generated = [0] * len(self._prompt_of)
        self._num_open = len(self._prompt_of)
        self._events = (
            EventWriter(request, settings, answer_id)
            if request.response is None
            else ResponseWriter(request, settings)
        )
        self._is_over = False
        self._is_stalled = False
        self.num_sent_tokens = 0
        """Of a stream: the tokens sent. Of an answer that is not streamed: the tokens generated so
        far, which are all sent at the end."""
        self.sent_crc = zlib.crc32(b"")
        """CRC-32 of the ids of those tokens; meaningful for one choice only."""
        self.on_first_token: Callable[[], None] = _do_nothing
        self.on_progress: Callable[[], bool] = _continue
        self.on_finished: Callable[[], None] = _do_nothing
        self.sequences = [
            self._sequence(choice, prompt) for choice, prompt in enumerate(self._prompt_of)
        ]
        if request.stream:
            exchange.on_writable = self._flush

    def _sequence(self, choice: int, prompt: int) -> Sequence:
        request = self.request
        sampling = replace(request.sampling, seed=request.seeds[choice % len(request.seeds)])
        ids = request.prompts[prompt]
        generator = AnswerGenerator(ids, sampling, self._settings.eos_every_tokens)
        verdicts = None
        if request.acceptance_rates:
            seed = f"{self._settings.seed} {choice} {zlib.crc32(pack_ids(ids))}"
            verdicts = DraftVerdicts(request.acceptance_rates, seed)
        return Sequence(ids, request.cache_salt, generator, partial(self._take, choice), verdicts)

    def announce(self) -> None:
        """Send the events that the route sends before it computes the prompt."""
        events = self._events.before_tokens() if self.request.stream else []
        if events:
            self.exchange.begin_stream()
            self.exchange.send(*events)

    def stop(self) -> None:
        """Send nothing more."""
        self._is_over = True

    def stall(self) -> None:
        """Send nothing more until `resume`."""
        self._is_stalled = True

    def resume(self) -> None:
        self._is_stalled = False
        self._flush()

    def _take(self, choice: int, delta: AnswerDelta) -> None:
        if self._is_over:
            return
        if not any(self._num_generated):
            self.on_first_token()
            if not self._begin():
                return
        self._num_generated[choice] += len(delta.ids)
        if delta.finish_reason is not None:
            self._num_open -= 1
        if not self.request.stream:
            self._collected[choice] = _join(self._collected[choice], delta)
            self._count(delta)
            if self.on_progress() and not self._num_open:
                self._end()
        elif self._held or not self._may_send:
            self._held[choice] = _join(self._held.get(choice), delta)
        else:
            self._send({choice: delta})

    @property
    def _may_send(self) -> bool:
        return self.exchange.is_writable and not self._is_stalled

    def _begin(self) -> bool:
        if self.request.stream:
            self.exchange.begin_stream()
            if events := self._events.first(len(self._prompt_of)):
                self.exchange.send(*events)
        return self.on_progress()

    def _flush(self) -> None:
        if self._is_over or not self._may_send:
            return
        held, self._held = self._held, {}
        if held:
            self._send(held)
        elif not self._num_open:
            self._end()

    def _send(self, deltas: dict[int, AnswerDelta]) -> None:
        request = self.request
        events: list[bytes] = []
        for choice, delta in deltas.items():
            count = self._num_generated[choice]
            prompt = request.prompts[self._prompt_of[choice]]
            events += self._events.delta(ChoiceDelta(choice, delta, count, prompt))
            self._count(delta)
        self.exchange.send(*events)
        if self.on_progress() and not self._num_open:
            self._end()

    def _count(self, delta: AnswerDelta) -> None:
        self.num_sent_tokens += len(delta.ids)
        self.sent_crc = zlib.crc32(pack_ids(delta.ids), self.sent_crc)

    def _end(self) -> None:
        """Send the end of the answer after the last token, unless the answer is stalled."""
        if self._is_stalled:
            return
        self._is_over = True
        self.on_finished()
        if not self.request.stream:
            self.exchange.respond(200, self._render_whole())
            return
        num_prompt_tokens = sum(map(len, self.request.prompts))
        metrics = None
        speculation = self._settings.speculation
        if (
            speculation is not None
            and self._settings.per_request_spec_decode_metrics != "none"
            and len(self.sequences) == 1
        ):
            steps = self.sequences[0].accepted_by_step
            metrics = draft_metrics(steps, speculation.draft_length)
        num_tokens = sum(self._num_generated)
        self.exchange.send(*self._events.end(num_prompt_tokens, num_tokens, metrics))
        self.exchange.end_stream()

    def _render_whole(self) -> bytes:
        answers = [
            (prompt, delta)
            for prompt, delta in zip(self._prompt_of, self._collected, strict=True)
            if delta is not None
        ]
        return self._events.whole(answers)


def _do_nothing() -> None:
    pass


def _continue() -> bool:
    return True


def _join(before: AnswerDelta | None, delta: AnswerDelta) -> AnswerDelta:
    if before is None:
        return delta
    return AnswerDelta(
        before.ids + delta.ids,
        before.text + delta.text,
        delta.finish_reason,
        delta.stop_reason,
        before.logprobs + delta.logprobs,
    )
