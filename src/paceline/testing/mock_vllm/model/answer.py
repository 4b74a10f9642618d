"""Generate an answer: its tokens, its text, and the point where it stops.

The order of the stop checks, the text held back before stop strings and the rule for which tokens
count as output are vLLM's (`check_stop` in v1/core/sched/utils.py, `BaseIncrementalDetokenizer` in
v1/engine/detokenizer.py). `expected_answer` computes the whole answer as a pure function, so that
tests can compare it with what a client received.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.testing.mock_vllm.model.defective_sampler import DefectiveSampler
from paceline.testing.mock_vllm.model.detokenizer import Detokenizer
from paceline.testing.mock_vllm.model.sampling import Sampler, SamplingParams, TokenLogprobs
from paceline.testing.mock_vllm.model.vocabulary import END

DEFAULT_EOS_EVERY_TOKENS = 512
"""Chosen empirically: most answers of a few hundred tokens reach `max_tokens`, some end earlier."""


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """The tokens and the text that one engine step adds to an answer."""

    ids: list[int]
    text: str
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()
    """One for each token, if the request asks for them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer."""

    ids: tuple[int, ...]
    text: str
    finish_reason: str
    stop_reason: str | int | None


class AnswerGenerator:
    """Generates one answer, a few tokens at a time."""

    __slots__ = (
        "_detokenizer",
        "_logprobs",
        "_num_sent_chars",
        "_sampler",
        "_sampling",
        "_stop_buffer_chars",
        "_text",
        "is_finished",
        "num_tokens",
    )

    def __init__(
        self, prompt_ids: Sequence[int], sampling: SamplingParams, eos_every_tokens: int
    ) -> None:
        make = Sampler if sampling.defect is None else DefectiveSampler
        self._sampler = make(prompt_ids, sampling, eos_every_tokens=eos_every_tokens)
        self._detokenizer = Detokenizer(
            prompt_ids, skip_special_tokens=sampling.skip_special_tokens
        )
        self._sampling = sampling
        self._logprobs: list[TokenLogprobs] = []
        self._text = ""
        self._num_sent_chars = 0
        holds_back = sampling.stop and not sampling.include_stop_str_in_output
        self._stop_buffer_chars = max(map(len, sampling.stop)) - 1 if holds_back else 0
        self.num_tokens = 0
        self.is_finished = False

    def advance(self, num_tokens: int) -> AnswerDelta:
        """Generate the next `num_tokens` tokens, or fewer if the answer ends before.

        Must not be called once `is_finished` is true.
        """
        ids: list[int] = []
        texts: list[str] = []
        finish_reason: str | None = None
        stop_reason: str | int | None = None
        while len(ids) < num_tokens and finish_reason is None:
            token, text, finish_reason, stop_reason = self._step()
            ids.append(token)
            texts.append(text)
        logprobs, self._logprobs = tuple(self._logprobs), []
        if not self._sampling.stop:
            return AnswerDelta(ids, "".join(texts), finish_reason, stop_reason, logprobs)
        # With stop strings the whole text is kept: a match may cut text that is still held back.
        end = len(self._text) - (0 if finish_reason else self._stop_buffer_chars)
        sent, self._num_sent_chars = self._num_sent_chars, max(end, self._num_sent_chars)
        text = self._text[sent : self._num_sent_chars]
        return AnswerDelta(ids, text, finish_reason, stop_reason, logprobs)

    def _step(self) -> tuple[int, str, str | None, str | int | None]:
        sampling = self._sampling
        is_past_minimum = self.num_tokens >= sampling.min_tokens
        if sampling.num_logprobs is None:
            token = self._sampler.next_token(may_end=is_past_minimum)
        else:
            logprobs, token = self._sampler.next_logprobs(may_end=is_past_minimum)
            self._logprobs.append(logprobs)
        self.num_tokens += 1
        finish_reason: str | None = None
        stop_reason: str | int | None = None
        if token == END and not sampling.ignore_eos:
            finish_reason = "stop"
        elif token in sampling.stop_token_ids and is_past_minimum:
            finish_reason, stop_reason = "stop", token
        elif self.num_tokens >= sampling.max_tokens:
            finish_reason = "length"
        if finish_reason == "stop" and not sampling.include_stop_str_in_output:
            text = ""
        else:
            text = self._detokenizer.feed(token)
        if sampling.stop and text:
            self._text += text
            found = self._find_stop(len(text)) if self.num_tokens > sampling.min_tokens else None
            if found is not None:
                finish_reason, stop_reason = "stop", found
        self.is_finished = finish_reason is not None
        return token, text, finish_reason, stop_reason

    def _find_stop(self, num_new_chars: int) -> str | None:
        """Return the stop string that is completed first, and cut the text at it."""
        best: tuple[int, int, str] | None = None
        for stop in self._sampling.stop:
            begin = self._text.find(stop, max(0, len(self._text) - num_new_chars - len(stop) + 1))
            end = begin + len(stop)
            if begin >= 0 and (best is None or end < best[0]):
                best = (end, begin, stop)
        if best is None:
            return None
        end, begin, stop = best
        self._text = self._text[: end if self._sampling.include_stop_str_in_output else begin]
        return stop


def expected_answer(
    prompt_ids: Sequence[int],
    max_tokens: int,
    *,
    seed: int | None = None,
    min_tokens: int = 0,
    stop: Sequence[str] = (),
    include_stop_str_in_output: bool = False,
    stop_token_ids: Sequence[int] = (),
    ignore_eos: bool = False,
    skip_special_tokens: bool = True,
    eos_every_tokens: int = DEFAULT_EOS_EVERY_TOKENS,
) -> Answer:
    """Compute the answer of the mock server; `seed` is None for greedy decoding (`temperature` 0).

    Sampled answers are those at temperature 1. A greedy answer can be continued from its token ids:

    >>> whole = expected_answer([65, 66], 12)
    >>> rest = expected_answer([65, 66, *whole.ids[:5]], 12 - 5)
    >>> whole.ids[5:] == rest.ids
    True
    """
    generator = AnswerGenerator(
        prompt_ids,
        SamplingParams(
            max_tokens=max_tokens,
            seed=seed,
            min_tokens=min_tokens,
            stop=tuple(stop),
            include_stop_str_in_output=include_stop_str_in_output,
            stop_token_ids=frozenset(stop_token_ids),
            ignore_eos=ignore_eos,
            skip_special_tokens=skip_special_tokens,
        ),
        eos_every_tokens,
    )
    delta = generator.advance(max_tokens)
    assert delta.finish_reason is not None
    return Answer(tuple(delta.ids), delta.text, delta.finish_reason, delta.stop_reason)
