"""Speculative sampling with a planted defect: drafts, verification, residual and bonus token.

After the first token, a step drafts `DRAFT_TOKENS` tokens from `draft_probs`, accepts each with
probability min(1, target / draft), replaces the first rejected one from the residual
max(0, target - draft), and adds a bonus token when all are accepted. Without the defect the tokens
come from the target's distribution, as `Sampler` draws them directly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from paceline.testing.mock_vllm.model.sampling import Sampler, SamplingParams
from paceline.testing.mock_vllm.model.sampling_defect import DefectKind
from paceline.testing.mock_vllm.model.token_function import mix64

DRAFT_TOKENS: Final = 3
_DRAFT_NOISE_NATS: Final = 1.0
"""Largest difference between draft and target logits. Chosen empirically: about three of four
drafts are accepted."""
_REUSED_SEED: Final = 12345
_MAX_RANDOM: Final = 1 << 64
_DRAFT, _ACCEPT, _RESIDUAL, _IS_WRONG, _TEMPERATURE = range(1, 6)
"""Streams of random numbers; stream 0 is that of `Sampler`."""

Probs = Mapping[int, float]


def draft_probs(target_probs: Probs) -> dict[int, float]:
    """The draft's distribution: the target's, with fixed noise on the logit of each token."""
    weights = {
        token: prob * math.exp(_DRAFT_NOISE_NATS * (2 * mix64(token + 7) / _MAX_RANDOM - 1))
        for token, prob in target_probs.items()
    }
    return _normalised(weights)


class DefectiveSampler(Sampler):
    """A `Sampler` that speculates, wrongly."""

    __slots__ = ("_before", "_num_drafts_left", "_reuses_seed")

    def __init__(
        self, prompt_ids: Sequence[int], sampling: SamplingParams, *, eos_every_tokens: int
    ) -> None:
        assert sampling.defect is not None
        self._reuses_seed = False
        if sampling.defect.kind is DefectKind.SEED_REUSE and sampling.seed is not None:
            draw = mix64(mix64(sampling.seed)) / _MAX_RANDOM
            self._reuses_seed = draw < sampling.defect.share
        super().__init__(prompt_ids, sampling, eos_every_tokens=eos_every_tokens)
        self._num_drafts_left = DRAFT_TOKENS
        self._before: Probs = {}
        """The target's distribution at the position before."""

    def _choose(self, *, may_end: bool) -> int:
        sampling = self._sampling
        assert sampling.defect is not None
        kind = sampling.defect.kind
        is_first = self._num_drawn == 0
        if sampling.seed is None:
            tokens, _ = self.distribution(may_end=may_end)
            may_flip = kind is DefectKind.ARGMAX_FLIP and not is_first and len(tokens) > 1
            draw = mix64(self._source.hash ^ 0x5A5A) / _MAX_RANDOM
            return tokens[1 if may_flip and draw < sampling.defect.share else 0]
        target = self._target(sampling, may_end=may_end)
        is_wrong = self._random(_IS_WRONG) < sampling.defect.share
        if is_first:
            token = _draw(target, self._random())
            if self._reuses_seed:
                self._sampling = replace(sampling, seed=_REUSED_SEED)
        elif self._num_drafts_left:
            token = self._verify(kind if is_wrong else None, target, may_end=may_end)
        else:
            self._num_drafts_left = DRAFT_TOKENS
            is_from_draft = is_wrong and kind is DefectKind.BONUS_FROM_DRAFT
            token = _draw(draft_probs(target) if is_from_draft else target, self._random())
        self._before = target
        return token

    def _verify(self, kind: DefectKind | None, target: Probs, *, may_end: bool) -> int:
        """Draft one token and accept or replace it; `kind` None verifies correctly."""
        true_draft = draft_probs(target)
        drafted = _draw(true_draft, self._random(_DRAFT))
        checked = self._target(self._checked_parameters(kind), may_end=may_end)
        draft: Probs = true_draft
        if kind is DefectKind.WRONG_DRAFT_PROBS:
            draft = _normalised({token: math.sqrt(prob) for token, prob in true_draft.items()})
        judged = self._before if kind is DefectKind.OFF_BY_ONE else checked
        accepts = self._random(_ACCEPT) * draft[drafted] < judged.get(drafted, 0.0)
        if accepts or kind is DefectKind.ACCEPT_ALL:
            self._num_drafts_left -= 1
            return drafted
        self._num_drafts_left = DRAFT_TOKENS
        residual: Probs = checked
        if kind is not DefectKind.RESIDUAL_FROM_TARGET:
            left = {token: max(0.0, p - draft.get(token, 0.0)) for token, p in checked.items()}
            residual = _normalised(left) if sum(left.values()) > 0 else checked
        return _draw(residual, self._random(_RESIDUAL))

    def _checked_parameters(self, kind: DefectKind | None) -> SamplingParams:
        sampling = self._sampling
        match kind:
            case DefectKind.TEMPERATURE_IGNORED:
                return replace(sampling, temperature=1.0)
            case DefectKind.FILTERS_IGNORED:
                return replace(sampling, top_k=0, top_p=1.0, min_p=0.0)
            case DefectKind.PENALTIES_IGNORED:
                return replace(
                    sampling, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0
                )
            case DefectKind.LOGIT_BIAS_IGNORED:
                return replace(sampling, logit_bias=())
            case DefectKind.RANDOM_TEMPERATURE:
                temperature = math.exp(math.log(20) * (2 * self._random(_TEMPERATURE) - 1))
                return replace(sampling, temperature=temperature, top_k=0, top_p=1.0)
            case _:
                return sampling

    def _target(self, sampling: SamplingParams, *, may_end: bool) -> dict[int, float]:
        tokens, probs = self.distribution(may_end=may_end, sampling=sampling)
        return dict(zip(tokens, probs, strict=True))


def _normalised(weights: Probs) -> dict[int, float]:
    total = sum(weights.values())
    return {token: weight / total for token, weight in weights.items()}


def _draw(probs: Probs, random: float) -> int:
    above = 0.0
    for token, prob in probs.items():
        above += prob
        if random < above:
            return token
    return token
