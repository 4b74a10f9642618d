"""How long a step takes, learned from the steps themselves.

    seconds = base + request * n + judge * [v > 0] + context * c
            + token * t + bend_1 * max(t - 96, 0) + bend_2 * max(t - 160, 0) + …
            + first_pass * [k > 0] + pass * max(k - 1, 0) + draft * n * k
            + mixed * [p > 0] + prompt * p

with n requests, v draft tokens verified, p tokens of prompts, t = n + v + p tokens for the target
to compute, c thousand tokens of context, and k tokens drafted per request at the step's end. To the
target a draft token is a token like any other, so what requests and prompts cost teaches what
verifying would; the bends are where a pass ceases to be bound by reading the weights (some 100 to
300 tokens on GPUs) and each token costs its arithmetic. `prompt` is what a prompt token costs more,
or less, than another. The first draft token is apart from the further ones: a draft model that
keeps up at length 0 has computed it anyway. Verifying anything at all has a price of its own: the
rejection sampler runs instead of the plain one, for the whole batch. But for `prompt` the
coefficients are not negative: more work never takes less time.

Fit: weighted least squares on relative error, recursive, with forgetting. Steps of the same shape
(k, and n, v and p on a doubling scale) share one *cell*, which keeps a running mean of their
features and durations; the normal equations sum over cells. Plain recursive least squares with
forgetting loses what it knew about lengths not used lately (the matrix runs empty in those
directions, and noise fills them); here the last word of every shape stays, and fades slowly. A
duration enters a cell clipped to between half and twice the cell's mean, so one stall moves it
little while a lasting change gets through in a few steps; a young cell takes a shorter duration at
once, since the first use of a shape pays for things that never come again.

Prior: each coefficient lies near a proportion of the first step's time (`_PRIOR`), give or take a
stated spread; it never fades. Much is not told apart by what is seen: at one request a draft pass,
a draft token and a verified token all grow with k alone, and if the fit called it draft tokens, 256
requests would look 256 times as dear. The prior says which of them it mostly is.

Solved exactly, with an active set for the coefficients held at zero, one of which goes free
every few steps if the data pull it up (Lawson and Hanson, 1974); what a step leaves undone the next
one goes on with.

Assumes that cost bends upwards in tokens and is linear in everything else. Fails on the fine
staircase of captured CUDA graph sizes (8 or 16 tokens a stair), and where a machine is shared with
other work that comes and goes within a memory: then cells measured in quiet and busy times
contradict, until each has been visited again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from paceline.governor.values import StepSample

Floats = npt.NDArray[np.float64]

_KNOT_1, _KNOT_2, _KNOT_3, _KNOT_4 = 96, 160, 256, 384
"""Tokens. Arithmetic over bandwidth of data-centre GPUs, in bfloat16 and as far as kernels reach
either, is 120 to 340."""

# Of the first step's time: (mean, spread). The two-core CPUs and the two GPU profiles of the
# simulator lie within the spreads; chosen by hand beyond that.
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
"""Of a step's duration: what one sample is trusted to, against the prior. Chosen by hand."""
_PRIOR_WEIGHT = (_NOISE / np.array([spread for _, _, spread in _PRIOR])) ** 2
_FIRST_FREE = _NUM_FEATURES - 1
"""From here on they may be negative."""

_CELL_MEMORY = 24.0
"""Samples a cell averages over: a shift shows in about as many steps. Chosen by hand."""
_YOUNG_SAMPLES = 4.0
"""Of the first few the shortest counts. Seen: the first draft of a start took 29 ms, the next 7;
with the mean of such samples a governor stayed off on text where drafting doubled the rate."""
_PROMPT_CELL_SHARE = 0.25
"""Weight of a step with prompt tokens: what they take depends on more than their number."""
_KEEP = 0.9995
"""Per clean step, for all cells: one not visited for 2000 steps has lost two thirds. By hand."""
# Fading is done by giving newer samples more weight, which spares touching the sums every step;
# at this weight they are rebuilt.
_MAX_WEIGHT = 1e6
_CLIP = 2.0
_MAX_CELLS = 192
_MAX_SOLVES = 3
_RELEASE_EVERY = 4
_HOLD = 1e12
"""Times its own weight, nothing moves a coefficient from zero."""
_LEAST_STEP_S = 1e-9
"""So that a rate can be computed of it."""


class CostModel:
    """Learns step durations and predicts them. Not ready before the first clean decode step."""

    def __init__(self) -> None:
        # Features and duration beside each other, so that one product sums both sides of the
        # normal equations: rows are equations, the last column is their right side.
        self._sums = np.zeros((_NUM_FEATURES + 1, _NUM_FEATURES + 1))
        self._prior = np.zeros((_NUM_FEATURES, _NUM_FEATURES + 1))
        self._held: list[int] = []  # at zero
        self._num_solved = 0
        self._coefficients = [0.0] * _NUM_FEATURES
        self._cells: dict[tuple[int, int, int, int], _Cell] = {}
        self._measured: set[tuple[int, int]] = set()
        self._weight_now = 1.0
        self.is_ready = False

    def observe(self, sample: StepSample) -> None:
        """Learn from a clean step with a duration; ignore every other."""
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
        if not self.is_ready:
            if sample.prefill_tokens:
                return  # says little about a base
            self._start_from(step)
        self._weight_now /= _KEEP
        if self._weight_now > _MAX_WEIGHT:
            self._rescale()
        key = (
            sample.draft_length,
            sample.num_requests.bit_length(),
            sample.verified_draft_tokens.bit_length(),
            sample.prefill_tokens.bit_length(),
        )
        cell = self._cells.pop(key, None)
        if cell is None:
            cell = _Cell(step, sample.duration_s)
            if len(self._cells) >= _MAX_CELLS:
                self._sums -= self._cells.pop(self._most_forgettable()).entered
            self._measured = {known[:2] for known in (key, *self._cells) if known[3] == 0}
        else:
            self._sums -= cell.entered
            cell.blend(step, sample.duration_s)
        share = _PROMPT_CELL_SHARE if sample.prefill_tokens else 1.0
        self._sums += cell.enter(share * cell.num_samples * self._weight_now)
        self._cells[key] = cell  # last in the order: most recently visited
        self._solve()

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

        `verifying_fraction`: the chance that there is anything to verify; None takes
        `verified_draft_tokens` for a count of one step, not a mean over many.
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
        """The same for every draft length from 0 on at once: `drafts[k]` are the draft tokens
        verified per request at length k, shape (num_lengths,); at length 0 nothing is. Never 0."""
        _, _, judge, _, _, _, _, _, _, first_pass, further_pass, draft, _, _ = self._coefficients
        undrafted_s = max(self._undrafted_s(num_requests, context_tokens), _LEAST_STEP_S)
        drafting_s = undrafted_s + judge * verifying_fraction + first_pass - further_pass
        length_s = further_pass + draft * num_requests
        tokens_s = self._tokens_s
        seconds = [
            drafting_s + tokens_s(num_requests * (1.0 + num)) + length_s * length
            for length, num in enumerate(drafts)
        ]
        seconds[0] = undrafted_s + tokens_s(num_requests)
        return seconds

    def is_measured(self, num_requests: int, length: int) -> bool:
        """Whether a decode step of about this size was seen with this draft length."""
        return (length, num_requests.bit_length()) in self._measured

    def _most_forgettable(self) -> tuple[int, int, int, int]:
        """The cell not visited for longest, of those with prompt tokens if there are any: these
        come in many shapes, and would drive out the others."""
        return next((key for key in self._cells if key[3] > 0), next(iter(self._cells)))

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

    def _start_from(self, step: Floats) -> None:
        unit_s = float(step[-1] / (_PRIOR_MEAN @ step[:-1]))
        weight = _PRIOR_WEIGHT / unit_s**2
        self._prior[:, :-1] = np.diag(weight)
        self._prior[:, -1] = weight * _PRIOR_MEAN * unit_s
        self._coefficients = (_PRIOR_MEAN * unit_s).tolist()
        self.is_ready = True

    def _rescale(self) -> None:
        """Bring the growing weights back to 1, and the sums rebuilt from the cells with them."""
        self._sums[:] = 0.0
        for cell in self._cells.values():
            self._sums += cell.enter(cell.entered_weight / self._weight_now)
        self._weight_now = 1.0

    def _solve(self) -> None:
        equations = self._sums[:-1] * (1.0 / self._weight_now)
        equations += self._prior
        gram, right_side = equations[:, :-1], equations[:, -1]
        held = self._held
        self._num_solved += 1
        if held and self._num_solved % _RELEASE_EVERY == 0:
            pull = (right_side - gram @ np.array(self._coefficients))[held]
            strongest = int(pull.argmax())
            if pull[strongest] > 0.0:
                held.pop(strongest)
        for index in held:
            gram[index, index] *= _HOLD
        now = self._coefficients
        for _ in range(_MAX_SOLVES):
            found: list[float] = np.linalg.solve(gram, right_side).tolist()
            for index in held:
                found[index] = 0.0
            if min(found[:_FIRST_FREE]) >= 0.0:
                now = found
                break
            # As far towards it as all stay positive; who reaches zero first is held there.
            share, first = min(
                (a / (a - b), index)
                for index, (a, b) in enumerate(zip(now, found[:_FIRST_FREE], strict=False))
                if b < 0.0
            )
            now = [a + share * (b - a) for a, b in zip(now, found, strict=True)]
            now[first] = 0.0
            held.append(first)
            gram[first, first] *= _HOLD
        self._coefficients = now


class _Cell:
    """Running means of the steps of one shape, and what they have put into the sums."""

    __slots__ = ("_duration_s", "_mean", "entered", "entered_weight", "num_samples")

    def __init__(self, step: Floats, duration_s: float) -> None:
        self._mean = step
        self._duration_s = duration_s
        self.num_samples = 1.0

    def blend(self, step: Floats, duration_s: float) -> None:
        is_young = self.num_samples < _YOUNG_SAMPLES
        self.num_samples = min(self.num_samples + 1.0, _CELL_MEMORY)
        share = 1.0 / self.num_samples
        before_s = self._duration_s
        if is_young and duration_s < before_s:
            before_s, share = duration_s, 1.0
        clipped_s = min(max(duration_s, before_s / _CLIP), before_s * _CLIP)
        self._duration_s = before_s + share * (clipped_s - before_s)
        step -= self._mean
        step *= share
        self._mean += step
        self._mean[-1] = self._duration_s

    def enter(self, weight: float) -> Floats:
        """What it puts into the sums with this weight."""
        self.entered_weight = weight
        self.entered = _entry(self._mean, weight)
        return self.entered


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


def _entry(step: Floats, weight: float) -> Floats:
    """Its share of the sums. The error is relative: a long step is no better known."""
    scaled = step * (math.sqrt(weight) / step[-1])
    entry: Floats = scaled * scaled[:, None]
    return entry
