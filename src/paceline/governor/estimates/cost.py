"""The duration of a step as a function of its work, learned from the steps themselves.

    seconds = base + request * n + judge * [v > 0] + context * c
            + token * t + bend_1 * max(t - 96, 0) + bend_2 * max(t - 160, 0) + …
            + first_pass * [k > 0] + pass * max(k - 1, 0) + draft * n * k
            + mixed * [p > 0] + prompt * p

with n requests, v draft tokens verified, p tokens of prompts, t = n + v + p tokens for the target
to compute, c thousand tokens of context, and k tokens drafted per request at the step's end.

The target computes a draft token like any other token, so the cost of verification is also learned
from steps with more requests or prompt tokens. The bends are where a pass ceases to be bound by
reading the weights (some 100 to 300 tokens on GPUs) and each token costs its arithmetic. `prompt`
is the extra cost of a prompt token, which may be negative. The first draft token is separate from
the further ones: a draft model that keeps up at length 0 has computed it anyway. Verifying anything
at all has a fixed cost: the rejection sampler runs instead of the plain one, for the whole batch.
All coefficients except `prompt` are non-negative: more work never takes less time.

All durations also have a common factor, the machine's slowness at the time (`machine_speed`): it is
taken out of a duration before the coefficients are fitted, and put on again in a prediction. So a
machine that slows down makes all lengths slower in the same proportion, also those not in use.
Nothing is learned while other work takes the machine's time.

`cell_regression` fits the coefficients. Prior: each coefficient lies near a proportion of the first
step's time (`_PRIOR`), within a stated spread. Observations leave much undetermined: at one request
a draft pass, a draft token and a verified token all grow with k alone, and a fit that attributed
the time to draft tokens would predict a cost 256 times as high at 256 requests. The prior
determines to which of them most of the time is attributed. Its unit is lowered when a step with no
less work than the first takes less time, since the first step of an engine is its slowest.

Assumes that cost bends upwards in tokens and is linear in everything else. Fails on the fine
staircase of captured CUDA graph sizes (8 or 16 tokens per stair), and on a machine where other work
slows down some kinds of step more than others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import expm1, inf
from operator import mul

import numpy as np

from paceline.governor.estimates.cell_regression import CellRegression, Floats, Shape
from paceline.governor.estimates.machine_speed import MachineSpeed
from paceline.governor.estimates.prefill_mix import PrefillMix
from paceline.governor.values import StepSample

_KNOT_1, _KNOT_2, _KNOT_3, _KNOT_4 = 96, 160, 256, 384
_KNOTS = (_KNOT_1, _KNOT_2, _KNOT_3, _KNOT_4)
"""Tokens. On data-centre GPUs, the bfloat16 arithmetic that kernels reach, divided by the memory
bandwidth that they reach, is 120 to 340."""

# Of the first step's time: (mean, spread). The two-core CPUs and the two GPU profiles of the
# simulator lie within the spreads; chosen empirically beyond that.
_PRIOR = (
    ("base", 0.95, 1.0),
    ("request", 0.005, 0.01),
    ("judge", 0.02, 0.05),
    ("context", 0.005, 0.01),
    ("token", 0.02, 0.02),
    ("bend 1", 0.0, 0.01),
    ("bend 2", 0.0, 0.01),
    ("bend 3", 0.0, 0.01),
    ("bend 4", 0.0, 0.01),
    ("first pass", 0.05, 0.1),
    ("pass", 0.05, 0.1),
    ("draft", 0.002, 0.003),
    ("mixed", 0.0, 0.2),
    ("prompt", 0.0, 0.003),
)
_NUM_FEATURES = len(_PRIOR)
_PRIOR_MEAN = np.array([mean for _, mean, _ in _PRIOR])
_NOISE = 0.05
"""Relative standard deviation of one duration, which weighs samples against the prior. Chosen
empirically."""
_PRIOR_WEIGHT = (_NOISE / np.array([spread for _, _, spread in _PRIOR])) ** 2
_NUM_NONNEGATIVE = _NUM_FEATURES - 1
"""All but the last coefficient, `prompt`."""

_UNIT_TOLERANCE = 0.02
_MAX_AWAITED = 8
"""Clean steps with prompt tokens that are passed over at the start. More, and every step has
some."""

_LEAST_STEP_S = 1e-9
"""Lower bound of a prediction, so that a rate can be computed from it."""


class CostModel:
    """Learns step durations and predicts them. Not ready before the first clean step."""

    def __init__(self) -> None:
        self._fit = CellRegression(_NUM_FEATURES, _NUM_NONNEGATIVE)
        self._speed = MachineSpeed()
        self.prefills = PrefillMix()
        """The prompt tokens that come along with decodes. Read only."""
        self._coefficients = [0.0] * _NUM_FEATURES
        self._measured: set[tuple[int, int]] = set()
        self._measured_mixed: set[tuple[int, int]] = set()
        self._num_awaited = 0  # clean steps with prompts seen while waiting for one without
        self._first_work = 0.0  # of the first step, in units of the prior
        self._unit_s = 0.0
        self.is_ready = False

    def observe(self, sample: StepSample) -> None:
        """Learn from a clean step with a duration; of every other, only how many prompt tokens
        come along."""
        self.prefills.observe(sample)
        if not sample.is_clean or not sample.duration_s or sample.num_requests == 0:
            return
        step = _step(
            sample.num_requests,
            sample.verified_draft_tokens,
            sample.context_tokens,
            sample.draft_length,
            sample.prefill_tokens,
            sample.duration_s,
        )
        shape = (
            sample.draft_length,
            sample.num_requests.bit_length(),
            sample.verified_draft_tokens.bit_length(),
            sample.prefill_tokens.bit_length(),
        )
        work = float(_PRIOR_MEAN @ step[:-1])
        if not self.is_ready:
            if sample.prefill_tokens and self._num_awaited < _MAX_AWAITED:
                self._num_awaited += 1
                return  # says little about a base
            self._set_unit(sample.duration_s / work)
            self._first_work = work
            self.is_ready = True
        was_disturbed = self._speed.is_disturbed
        fits = self._watch_speed(shape, step)
        if not (was_disturbed or self._speed.is_disturbed):
            self._learn(shape, step, work, is_outlier=not fits)
        factor = self._speed.factor
        self._coefficients = [factor * value for value in self._fit.solve()]

    def _watch_speed(self, shape: Shape, step: Floats) -> bool:
        """Whether the step's duration fits the machine's speed, as far as is known."""
        expected_s = self._fit.expected_s(shape, step)
        if expected_s is not None:
            return self._speed.add(step.item(-1) / expected_s)
        fitted_s = self._fit.fitted_s(step)
        if fitted_s > 0.0:
            self._speed.glance(step.item(-1) / fitted_s)
        return True

    def _learn(self, shape: Shape, step: Floats, work: float, *, is_outlier: bool) -> None:
        step[-1] /= self._speed.factor
        if self._fit.add(shape, step, is_outlier=is_outlier):
            shapes = list(self._fit.shapes)
            self._measured = {known[:2] for known in shapes if known[3] == 0}
            self._measured_mixed = {
                known[:2] for known in shapes if known[3] <= max(known[1], known[2]) + 2
            }
        if work >= self._first_work:
            self._revise_unit(self._fit.mean_s(shape) / self._first_work)

    def predict_s(
        self,
        num_requests: int,
        verified_draft_tokens: float,
        context_tokens: int,
        length: int,
        *,
        verifying_fraction: float | None = None,
    ) -> float:
        """Seconds of a clean decode step of this shape; 0 before the first clean step.

        `verifying_fraction`: the chance that there is anything to verify; None means that
        `verified_draft_tokens` is the count of one step, not a mean over many.
        """
        if verifying_fraction is None:
            verifying_fraction = float(verified_draft_tokens > 0)
        _, _, judge, _, _, _, _, _, _, first_pass, further_pass, draft, _, _ = self._coefficients
        seconds = self._undrafted_s(num_requests, context_tokens)
        seconds += judge * verifying_fraction
        seconds += self._tokens_s(num_requests + verified_draft_tokens)
        if length > 0:
            seconds += first_pass + further_pass * (length - 1) + draft * num_requests * length
        return seconds

    def predict_lengths_s(
        self,
        num_requests: int,
        drafts: Sequence[float],
        context_tokens: int,
        *,
        verifying_fraction: float,
    ) -> list[float]:
        """Seconds of a step without prompt tokens for every draft length from 0 on: `drafts[k]` are
        the draft tokens verified at length k, of all requests, shape (num_lengths,); nothing is
        verified at length 0. Never 0."""
        _, _, judge, _, _, _, _, _, _, first_pass, further_pass, draft, _, _ = self._coefficients
        undrafted_s = max(self._undrafted_s(num_requests, context_tokens), _LEAST_STEP_S)
        drafting_s = undrafted_s + judge * verifying_fraction + first_pass - further_pass
        length_s = further_pass + draft * num_requests
        tokens_s = self._tokens_s
        seconds = [
            drafting_s + tokens_s(num_requests + num) + length_s * length
            for length, num in enumerate(drafts)
        ]
        seconds[0] = undrafted_s + tokens_s(num_requests)
        return seconds

    def predict_prompts_s(
        self, num_requests: int, drafts: Sequence[float], outputs: Sequence[float]
    ) -> list[float]:
        """Mean seconds that prompt tokens add to a step, per output token, for every draft length;
        shape (num_lengths,) each.

        `drafts`: see `predict_lengths_s`; `outputs[k]` are the tokens that a step yields, above 0.
        Needs a `prefills.fraction` above 0.
        """
        _, _, _, _, token, *bends, _, _, _, mixed, prompt = self._coefficients
        # Past the last bend, where prompts take most steps, one straight line.
        last_token_s = token + sum(bends)
        last_s = -sum(map(mul, bends, _KNOTS))
        pieces_per_output = -self.prefills.pieces_per_output
        tokens_per_output = self.prefills.tokens_per_output
        tokens_s = self._tokens_s
        seconds = []
        for num_drafts, num_outputs in zip(drafts, outputs, strict=True):
            fraction = -expm1(pieces_per_output * num_outputs)
            size = tokens_per_output * num_outputs / fraction
            tokens = num_requests + num_drafts
            more_s = mixed + prompt * size - tokens_s(tokens)
            tokens += size
            more_s += last_token_s * tokens + last_s if tokens > _KNOT_4 else tokens_s(tokens)
            seconds.append(fraction * more_s / num_outputs if more_s > 0.0 else 0.0)
        return seconds

    def is_measured(self, num_requests: int, length: int) -> bool:
        """Whether a decode step of about this size was measured at this draft length. Where most
        steps have prompt tokens, those with some count, too, unless they have very many."""
        measured = self._measured if self.prefills.fraction <= 0.5 else self._measured_mixed
        return (length, num_requests.bit_length()) in measured

    @property
    def is_settled(self) -> bool:
        """Whether the machine's speed has not changed recently (`machine_speed`)."""
        return self._speed.is_settled

    def num_undrafted(self, num_requests: int) -> float:
        """How many steps of about this size without drafts, and without prompt tokens, the cost
        model averages over. Where most steps have prompt tokens: infinite once any was measured."""
        if self.prefills.fraction > 0.5:
            return inf if self.is_measured(num_requests, 0) else 0.0
        return self._fit.num_samples((0, num_requests.bit_length(), 0, 0))

    def _revise_unit(self, unit_s: float) -> None:
        """Lower the prior's unit when a step of no less work than the first takes less time: the
        first steps of an engine are slow."""
        if unit_s < (1.0 - _UNIT_TOLERANCE) * self._unit_s:
            self._set_unit(unit_s)

    def _set_unit(self, unit_s: float) -> None:
        self._unit_s = unit_s
        self._fit.set_prior(_PRIOR_MEAN, _PRIOR_WEIGHT, unit_s)

    def _undrafted_s(self, num_requests: int, context_tokens: int) -> float:
        base, request, _, context, *_ = self._coefficients
        return base + request * num_requests + context * context_tokens * 1e-3

    def _tokens_s(self, tokens: float) -> float:
        _, _, _, _, token, bend_1, bend_2, bend_3, bend_4, *_ = self._coefficients
        seconds = token * tokens
        if tokens > _KNOT_1:
            seconds += bend_1 * (tokens - _KNOT_1)
            if tokens > _KNOT_2:
                seconds += bend_2 * (tokens - _KNOT_2)
                if tokens > _KNOT_3:
                    seconds += bend_3 * (tokens - _KNOT_3)
                    if tokens > _KNOT_4:
                        seconds += bend_4 * (tokens - _KNOT_4)
        return seconds


def _step(
    num_requests: int,
    verified_draft_tokens: float,
    context_tokens: int,
    length: int,
    prefill_tokens: int,
    duration_s: float,
) -> Floats:
    """The features of a step and its duration, shape (num_features + 1,)."""
    tokens = num_requests + verified_draft_tokens + prefill_tokens
    return np.array(
        (
            1.0,
            num_requests,
            verified_draft_tokens > 0,
            context_tokens * 1e-3,
            tokens,
            max(tokens - _KNOT_1, 0.0),
            max(tokens - _KNOT_2, 0.0),
            max(tokens - _KNOT_3, 0.0),
            max(tokens - _KNOT_4, 0.0),
            length > 0,
            max(length - 1, 0),
            num_requests * length,
            prefill_tokens > 0,
            prefill_tokens,
            duration_s,
        )
    )
