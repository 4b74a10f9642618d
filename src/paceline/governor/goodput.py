"""Which draft length gives the most tokens per second, as far as can be told from what was seen.

For n requests with context c, and every length k from 0 to the ceiling,

    tokens(k)  = n * (1 + survival_1 + … + survival_k)            (see `acceptance`)
    seconds(k) = cost(n, n * (offered_1 + … + offered_k), c, k)   (see `cost`)
    value(k)   = tokens(k) / seconds(k)

and the best k is taken: exact, there are only a few. It replaces the length in force when its value
is better by more than `_SWITCH_GAIN`, so noise does not make it flap.

Exploration, since a length never tried is never learned:

- *Profile.* At the first sight of a load, single steps at lengths spread over the range, a handful
  in all, teach the cost its slopes.
- *Neighbours.* Now and then one step at k+1, if it would win at one standard error of optimism
  about its acceptance, or a neighbour whose cost was never measured at this load. Each probe is
  paid from a credit that grows by `_EXPLORE_SHARE` of a step per step, at its expected loss.
- *Off.* At k = 0 nothing is learned about acceptance. Bursts of a few steps (about
  `_BURST_VERDICTS` verdicts) at the best length but 0, after a pause that doubles from
  `_FIRST_PAUSE` while they find nothing, no further than the budget asks (and `_LAST_PAUSE`), and
  starts anew when they nearly do or when the load changes by a factor of two.

Assumes steady state: the length drafted now is verified next, with as many requests. Fails on mixed
traffic, which it treats as one (no caps per request yet), and it sees no latency objective.
Reference: goodput as objective, TurboSpec (arXiv 2406.14066); probing and its price, Cascade
(arXiv 2506.20675).
"""

from __future__ import annotations

from paceline.governor.acceptance import AcceptanceModel
from paceline.governor.cost import CostModel
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

# All chosen by hand on the simulator of the tests, but for the budget, which is the goal.
_SWITCH_GAIN = 0.01
_EXPLORE_SHARE = 0.005
_MAX_CREDIT_STEPS = 1.0
_LEAST_PROBE_PRICE = 0.02
_PROBE_PAUSE = 24
_BURST_VERDICTS = 8
_MAX_BURST_STEPS = 4
_NEAR_MISS = 0.97
_FIRST_PAUSE = 24
_LAST_PAUSE = 384
_PROFILE_ROUNDS = 2


class GoodputPolicy:
    """Maximises expected tokens per second. One instance per engine."""

    def __init__(self, max_draft_length: int) -> None:
        if max_draft_length < 1:
            raise ValueError(f"max_draft_length is {max_draft_length}; it must be at least 1")
        self._acceptance = AcceptanceModel(max_draft_length)
        self._cost = CostModel()
        self._length = min(2, max_draft_length)
        self._profile = _profile_lengths(max_draft_length)
        self._credit_steps = _MAX_CREDIT_STEPS
        self._steps_since_probe = 0
        self._off_pause = _FIRST_PAUSE
        self._last_pause = _LAST_PAUSE
        self._steps_off = 0
        self._burst_left = 0
        self._value_before_burst = 0.0
        self._load_seen = 0

    def observe(self, sample: StepSample) -> None:
        """Learn acceptance from every step, cost from the clean ones."""
        self._acceptance.observe(sample)
        self._cost.observe(sample)

    def plan(self, load: EngineLoad) -> DraftPlan:
        """The best length, or a probe when one is due and paid for."""
        ceiling = load.max_draft_length
        if load.num_requests == 0 or ceiling == 0:
            return DraftPlan(min(self._length, ceiling), "nothing to weigh")
        self._notice_load(load.num_requests)
        if self._profile:
            return DraftPlan(min(self._profile.pop(), ceiling), "profile: learning the cost")
        if not self._cost.is_ready:
            return DraftPlan(min(self._length, ceiling), "prior: no clean step yet")
        values = self._values(load)
        self._length = self._choose(values)
        self._credit_steps = min(self._credit_steps + _EXPLORE_SHARE, _MAX_CREDIT_STEPS)
        if self._length == 0:
            probe = self._probe_while_off(load.num_requests, values)
        else:
            probe = self._probe(load, values)
        if probe is not None:
            return probe
        return DraftPlan(
            self._length,
            f"goodput: {values[self._length]:.0f} tokens/s expected, best of 0-{ceiling}",
        )

    def _values(self, load: EngineLoad) -> list[float]:
        """Expected tokens per second for 0…ceiling, shape (ceiling + 1,)."""
        num_requests, context_tokens = load.num_requests, load.context_tokens
        predict_s = self._cost.predict_s
        yields, drafts = 1.0, 0.0
        values = [num_requests / max(predict_s(num_requests, 0.0, context_tokens, 0), 1e-9)]
        survival, offered = self._acceptance.survival, self._acceptance.offered
        for length in range(1, min(load.max_draft_length, len(survival)) + 1):
            yields += survival[length - 1]
            drafts += offered[length - 1]
            seconds = predict_s(num_requests, num_requests * drafts, context_tokens, length)
            values.append(num_requests * yields / max(seconds, 1e-9))
        return values

    def _choose(self, values: list[float]) -> int:
        best = max(range(len(values)), key=values.__getitem__)
        now = min(self._length, len(values) - 1)
        chosen = best if values[best] > values[now] * (1.0 + _SWITCH_GAIN) else now
        if chosen == 0 and self._length != 0:
            self._steps_off = 0
            self._off_pause = _FIRST_PAUSE
            self._burst_left = 0
        return chosen

    def _probe(self, load: EngineLoad, values: list[float]) -> DraftPlan | None:
        """One step at a neighbouring length, when it may teach something worth its price."""
        self._steps_since_probe += 1
        if self._steps_since_probe < _PROBE_PAUSE:
            return None
        now = self._length
        for length in (now + 1, now - 1):
            if not 0 <= length < len(values):
                continue
            unmeasured = not self._cost.is_measured(load.num_requests, length)
            if not unmeasured and (length < now or not self._may_win(length, values)):
                continue
            price = max(1.0 - values[length] / values[now], _LEAST_PROBE_PRICE)
            if price <= self._credit_steps:
                self._credit_steps -= price
                self._steps_since_probe = 0
                return DraftPlan(length, f"probe: one step at {length} instead of {now}")
        return None

    def _may_win(self, length: int, values: list[float]) -> bool:
        """Whether a longer draft would win if its last position were accepted more often."""
        survival = self._acceptance.survival
        tokens = 1.0 + sum(survival[:length])
        gained = self._acceptance.optimistic_survival(length) - survival[length - 1]
        return values[length] * (1.0 + gained / tokens) > values[length - 1]

    def _probe_while_off(self, num_requests: int, values: list[float]) -> DraftPlan | None:
        """Bursts at the best length but 0, rarer while they find nothing."""
        best = 1 + max(range(len(values) - 1), key=lambda k: values[k + 1])
        if self._burst_left > 0:
            self._burst_left -= 1
            if self._burst_left == 0:
                self._rate_burst(values[best], values[0])
                return None
            return DraftPlan(best, "probe while off: has acceptance come back?")
        self._steps_off += 1
        if self._steps_off < self._off_pause:
            return None
        self._steps_off = 0
        self._value_before_burst = values[best]
        self._burst_left = min(-(-_BURST_VERDICTS // num_requests), _MAX_BURST_STEPS)
        lost_steps = self._burst_left * max(1.0 - values[best] / values[0], 0.0)
        self._last_pause = min(max(int(lost_steps / _EXPLORE_SHARE), _FIRST_PAUSE), _LAST_PAUSE)
        return DraftPlan(best, "probe while off: has acceptance come back?")

    def _rate_burst(self, value: float, value_off: float) -> None:
        """Soon again when the burst made drafting look better and nearly worth it."""
        is_promising = value > self._value_before_burst and value > _NEAR_MISS * value_off
        self._off_pause = (
            _FIRST_PAUSE if is_promising else min(2 * self._off_pause, self._last_pause)
        )

    def _notice_load(self, num_requests: int) -> None:
        """A load twice or half of what it was: what was learned while off may no longer hold."""
        if not self._load_seen:
            self._load_seen = num_requests
        elif not self._load_seen / 2 < num_requests < self._load_seen * 2:
            self._load_seen = num_requests
            self._off_pause = _FIRST_PAUSE


def _profile_lengths(max_draft_length: int) -> list[int]:
    """Lengths to visit first, last one first. Not the ceiling: at many requests it is dear."""
    return sorted({0, 1, min(4, max_draft_length)}) * _PROFILE_ROUNDS
