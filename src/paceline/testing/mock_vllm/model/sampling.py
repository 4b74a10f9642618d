"""Choose each token of an answer by vLLM's sampling parameters.

The candidate of rank r has logit `4 - r / 2`; all other tokens have -30 and occur only where
`logit_bias` or `allowed_token_ids` brings them in. The parameters apply in vLLM's order
(`Sampler.forward` in v1/sample/sampler.py). The random number of an answer's i-th token depends on
the seed and on i, as with vLLM's generator for each request: an answer that is continued with the
same seed draws its first numbers again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from paceline.testing.mock_vllm.model.sampling_defect import SamplingDefect
from paceline.testing.mock_vllm.model.token_function import MAX_CANDIDATES, TokenSource, mix64
from paceline.testing.mock_vllm.model.vocabulary import END

_BEST_LOGIT: Final = 4.0
_LOGIT_STEP: Final = 0.5
_OTHER_LOGIT: Final = -30.0
_MAX_RANDOM: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The sampling parameters of one request, under vLLM's names and with its defaults."""

    max_tokens: int
    seed: int | None = None
    """None for greedy decoding."""
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    include_stop_str_in_output: bool = False
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    temperature: float = 1.0
    """Without effect on greedy decoding, as are the next three."""
    top_p: float = 1.0
    top_k: int = 0
    """Up to 0: all tokens."""
    min_p: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    allowed_token_ids: frozenset[int] | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    """Of tokens that the answer has; effective for greedy decoding too, as is the next one."""
    frequency_penalty: float = 0.0
    num_logprobs: int | None = None
    """Log-probabilities to report per token; None: none."""
    defect: SamplingDefect | None = None
    """A planted defect; see `defective_sampler`."""

    @property
    def penalizes(self) -> bool:
        """Whether a penalty applies."""
        penalties = (self.repetition_penalty - 1.0, self.presence_penalty, self.frequency_penalty)
        return any(penalties)


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The model's own log-probabilities at one position, before any sampling parameter."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    """The best tokens, the best first."""


class Sampler:
    """Chooses the tokens of one answer, one by one."""

    __slots__ = ("_context", "_counts", "_num_drawn", "_sampling", "_source")

    def __init__(
        self, prompt_ids: Sequence[int], sampling: SamplingParams, *, eos_every_tokens: int
    ) -> None:
        self._source = TokenSource(prompt_ids, eos_every_tokens=eos_every_tokens)
        self._sampling = sampling
        self._num_drawn = 0
        self._context = set(prompt_ids) if sampling.penalizes else set()
        self._counts: Counter[int] = Counter()

    def next_token(self, *, may_end: bool = True) -> int:
        """Return the next token; with `may_end=False` (below `min_tokens`) never the end token."""
        token = self._choose(may_end=may_end)
        self._num_drawn += 1
        self._source.append(token)
        if self._sampling.penalizes:
            self._context.add(token)
            self._counts[token] += 1
        return token

    def _choose(self, *, may_end: bool) -> int:
        sampling = self._sampling
        if sampling.seed is None and _is_plain(sampling):
            return self._source.greedy(may_end=may_end)
        tokens, probs = self.distribution(may_end=may_end)
        return tokens[0 if sampling.seed is None else _draw(probs, self._random())]

    def next_logprobs(self, *, may_end: bool = True) -> tuple[TokenLogprobs, int]:
        """As `next_token`, with the log-probabilities at its position."""
        candidates = self._source.candidates(may_end=may_end)
        token = self.next_token(may_end=may_end)
        return _raw_logprobs(candidates, token, self._sampling.num_logprobs or 0), token

    def distribution(
        self, *, may_end: bool = True, sampling: SamplingParams | None = None
    ) -> tuple[list[int], tuple[float, ...]]:
        """Return the tokens that may come next and their probabilities, the best one first.

        For greedy decoding, the probabilities are those before `argmax`. `sampling` replaces the
        parameters of the request.
        """
        sampling = sampling or self._sampling
        tokens = self._source.candidates(may_end=may_end)
        if _is_plain(sampling):
            logits = _RANK_LOGITS[: len(tokens)]
        else:
            by_token = self._adjusted(tokens, may_end, sampling)
            tokens = sorted(by_token, key=lambda token: (-by_token[token], token))
            logits = tuple(by_token[token] for token in tokens)
        probs = _probs(logits, sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)
        return tokens[: len(probs)], probs

    def _adjusted(
        self, tokens: Sequence[int], may_end: bool, sampling: SamplingParams
    ) -> Mapping[int, float]:
        logits = dict(zip(tokens, _RANK_LOGITS, strict=False))
        if sampling.allowed_token_ids is not None:
            logits = {t: logits.get(t, _OTHER_LOGIT) for t in sampling.allowed_token_ids}
        for token, bias in sampling.logit_bias:
            if sampling.allowed_token_ids is None or token in logits:
                logits[token] = logits.get(token, _OTHER_LOGIT) + bias
        if not may_end and len(logits) > 1:
            logits.pop(END, None)
        for token in self._context & logits.keys():
            factor = sampling.repetition_penalty
            logits[token] *= factor if logits[token] < 0 else 1 / factor
        for token in self._counts.keys() & logits.keys():
            logits[token] -= sampling.frequency_penalty * self._counts[token]
            logits[token] -= sampling.presence_penalty
        return logits

    def _random(self, stream: int = 0) -> float:
        """The random number of this position; those of different streams are independent."""
        assert self._sampling.seed is not None
        mixed = mix64(mix64(2 * self._sampling.seed + 1) + self._num_drawn + (stream << 40))
        return mixed / _MAX_RANDOM


def prompt_logprobs(
    prompt_ids: Sequence[int], num: int, *, eos_every_tokens: int
) -> list[TokenLogprobs | None]:
    """The log-probabilities of a prompt's own tokens; None for the first one."""
    found: list[TokenLogprobs | None] = [None]
    source = TokenSource(prompt_ids[:1], eos_every_tokens=eos_every_tokens)
    for token in prompt_ids[1:]:
        found.append(_raw_logprobs(source.candidates(), token, num))
        source.append(token)
    return found


def _is_plain(sampling: SamplingParams) -> bool:
    """Whether no parameter changes the order of the candidates."""
    return not (sampling.penalizes or sampling.logit_bias or sampling.allowed_token_ids is not None)


def _raw_logprobs(candidates: Sequence[int], token: int, num: int) -> TokenLogprobs:
    logits = dict(zip(candidates, _RANK_LOGITS, strict=False))
    log_normaliser = math.log(sum(math.exp(logit) for logit in logits.values()))
    top = tuple((found, logit - log_normaliser) for found, logit in list(logits.items())[:num])
    return TokenLogprobs(token, logits.get(token, _OTHER_LOGIT) - log_normaliser, top)


_RANK_LOGITS: Final = tuple(_BEST_LOGIT - _LOGIT_STEP * rank for rank in range(MAX_CANDIDATES))


@lru_cache(maxsize=256)
def _probs(
    logits: tuple[float, ...], temperature: float, top_k: int, top_p: float, min_p: float
) -> tuple[float, ...]:
    """Return the probabilities of the tokens that are left, for logits in falling order."""
    weights = [math.exp((logit - logits[0]) / temperature) for logit in logits]
    weights = [weight for weight in weights if weight >= min_p]
    if top_k > 0:
        weights = weights[:top_k]
    total, above = sum(weights), 0.0
    kept: list[float] = []
    for weight in weights:
        if kept and above >= top_p * total:
            break
        kept.append(weight)
        above += weight
    return tuple(weight / above for weight in kept)


def _draw(probs: Sequence[float], random: float) -> int:
    """Return the index at which the sum of the probabilities exceeds the random number."""
    above = 0.0
    for index, prob in enumerate(probs):
        above += prob
        if random < above:
            return index
    return len(probs) - 1
