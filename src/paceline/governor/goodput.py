"""Which draft length gives the most tokens per second, as far as can be told from what was seen.

For n requests with context c, and every length k from 0 to the ceiling,

    tokens(k)  = n * (1 + survival_1 + … + survival_k)            (see `acceptance`)
    seconds(k) = cost(n, n * (offered_1 + … + offered_k), c, k)   (see `cost`)
    value(k)   = tokens(k) / seconds(k)

and the best k is taken: exact, there are only a few. It replaces the length in force when its value
is better by more than `_SWITCH_GAIN`, so noise does not make it flap.

Exploration, since a length never tried is never learned:

- *Profile.* The first steps of all, a handful, at lengths 4, 1 and 0, teach the cost its slopes.
- *Neighbours.* Now and then one step at k+1, if it would win at one standard error of optimism
  about its acceptance, or a neighbour whose cost was never measured at this load.
- *Off.* At k = 0 nothing is learned about acceptance. Bursts at the best length but 0: one or two
  steps, then on, to `_MAX_BURST_STEPS`, as long as drafting would win if all drafts were accepted
  as those of the burst were. The first bad verdicts end it: hopeless text costs a step or two.

What it may cost: one account, in seconds, earns `_EXPLORE_SHARE` of every step's expected time, and
every exploring step but the profile pays from it

    price(k) = seconds(k) - seconds(now) * min(tokens(k), tokens(now)) / tokens(now)

the time it wastes should nothing be accepted beyond what the length in force yields; what a burst
gets accepted while it lasts is refunded, up to its price. The account alone spaces the bursts,
whatever the load does. A burst begins when the account covers its first steps, or is full
(`_MAX_SAVED_STEPS`) and they are dearer; the first steps of the next are then at most
`_MAX_SAVED_STEPS` / `_EXPLORE_SHARE` = 1000 steps away from an account at zero, so the way back
from off is never barred. Debt, of a dear burst or of a promising one that fails, is earned back
before. The start-up allowance, once per engine: the profile, and `_FIRST_CREDIT_STEPS` of a step.

A lucky burst may switch on a losing length for some steps, which no account foresees: for that a
fifth of the goal, 0.5 % of the time, is not given to the account. In simulation the loss against
off, over 12,000 steps of text where 2 to 30 % is accepted, is at most 0.5 % and 12 steps for the
start (most where off wins narrowly: one request, 2 % accepted, drafting 8 % dearer).

Assumes steady state: the length drafted now is verified next, with as many requests. Fails on mixed
traffic, which it treats as one (no caps per request yet), and it sees no latency objective.
Reference: goodput as objective, TurboSpec (arXiv 2406.14066); probing and its price, Cascade
(arXiv 2506.20675).
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.governor.acceptance import AcceptanceModel
from paceline.governor.cost import CostModel
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

# All chosen by hand on the simulator of the tests.
_SWITCH_GAIN = 0.01
_EXPLORE_SHARE = 0.004
_FIRST_CREDIT_STEPS = 1.0
_MAX_SAVED_STEPS = 4.0
_LEAST_PRICE_STEPS = 0.02
_PROBE_PAUSE = 24
_BURST_PAUSE = 24
_FIRST_VERDICTS = 8
_MAX_FIRST_STEPS = 2
_MAX_BURST_STEPS = 8
_PROFILE_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class _Forecast:
    """What each length 0…ceiling would yield and take, shape (ceiling + 1,) each."""

    tokens: list[float]
    seconds: list[float]
    values: list[float]
    """Tokens per second."""

    def price_s(self, length: int, now: int) -> float:
        """Time wasted by one step at `length` instead of `now`, nothing more being accepted."""
        useful = min(self.tokens[length] / self.tokens[now], 1.0)
        least_s = _LEAST_PRICE_STEPS * self.seconds[now]
        return max(self.seconds[length] - self.seconds[now] * useful, least_s)


class GoodputPolicy:
    """Maximises expected tokens per second. One instance per engine."""

    def __init__(self, max_draft_length: int) -> None:
        if max_draft_length < 1:
            raise ValueError(f"max_draft_length is {max_draft_length}; it must be at least 1")
        self._acceptance = AcceptanceModel(max_draft_length)
        self._cost = CostModel()
        self._length = min(2, max_draft_length)
        self._profile = _profile_lengths(max_draft_length)
        self._credit_s: float | None = None
        self._steps_since_probe = 0
        self._steps_off = 0
        self._burst_steps = 0  # of the burst under way; 0 when there is none
        self._burst_judged = 0
        self._burst_accepted = 0
        self._burst_price_s = 0.0  # what has been paid for it and not been refunded
        self._token_s = 0.0  # per token, undrafted, at its load

    def observe(self, sample: StepSample) -> None:
        """Learn acceptance from every step, cost from the clean ones."""
        self._acceptance.observe(sample)
        self._cost.observe(sample)
        if self._burst_steps > 0:
            accepted = sum(sample.accepted)
            self._burst_judged += len(sample.drafted)
            self._burst_accepted += accepted
            refund_s = min(accepted * self._token_s, self._burst_price_s)
            self._burst_price_s -= refund_s
            self._pay(-refund_s)

    def plan(self, load: EngineLoad) -> DraftPlan:
        """The best length, or a probe when one is due and paid for."""
        ceiling = load.max_draft_length
        if load.num_requests == 0 or ceiling == 0:
            return DraftPlan(min(self._length, ceiling), "nothing to weigh")
        if self._profile:
            return DraftPlan(min(self._profile.pop(), ceiling), "profile: learning the cost")
        if not self._cost.is_ready:
            return DraftPlan(min(self._length, ceiling), "prior: no clean step yet")
        forecast = self._forecast(load)
        self._length = self._choose(forecast.values)
        self._earn(forecast.seconds[self._length])
        if self._length == 0:
            probe = self._probe_while_off(load.num_requests, forecast)
        else:
            probe = self._probe(load, forecast)
        if probe is not None:
            return probe
        expected = forecast.values[self._length]
        return DraftPlan(
            self._length, f"goodput: {expected:.0f} tokens/s expected, best of 0-{ceiling}"
        )

    def _forecast(self, load: EngineLoad) -> _Forecast:
        num_requests, context_tokens = load.num_requests, load.context_tokens
        survival, offered = self._acceptance.survival, self._acceptance.offered
        tokens, seconds = [], []
        yields, drafts = 1.0, 0.0
        for length in range(min(load.max_draft_length, len(survival)) + 1):
            if length > 0:
                yields += survival[length - 1]
                drafts += offered[length - 1]
            step_s = self._cost.predict_s(
                num_requests, num_requests * drafts, context_tokens, length
            )
            tokens.append(num_requests * yields)
            seconds.append(max(step_s, 1e-9))
        values = [num / step_s for num, step_s in zip(tokens, seconds, strict=True)]
        return _Forecast(tokens, seconds, values)

    def _choose(self, values: list[float]) -> int:
        best = max(range(len(values)), key=values.__getitem__)
        now = min(self._length, len(values) - 1)
        chosen = best if values[best] > values[now] * (1.0 + _SWITCH_GAIN) else now
        if chosen == 0 and self._length != 0:
            self._steps_off = 0
            self._burst_steps = 0
        return chosen

    def _earn(self, step_s: float) -> None:
        """A step's share for exploration. What is saved beyond a full account stays, unearned."""
        if self._credit_s is None:
            self._credit_s = _FIRST_CREDIT_STEPS * step_s
        full_s = _MAX_SAVED_STEPS * step_s
        if self._credit_s < full_s:
            self._credit_s = min(self._credit_s + _EXPLORE_SHARE * step_s, full_s)

    def _can_pay(self, price_s: float, step_s: float) -> bool:
        """Whether the account covers it, or is full and may go into debt for what is dearer."""
        return self._credit_s is not None and self._credit_s >= min(
            price_s, _MAX_SAVED_STEPS * step_s
        )

    def _pay(self, price_s: float) -> None:
        if self._credit_s is not None:
            self._credit_s -= price_s

    def _probe(self, load: EngineLoad, forecast: _Forecast) -> DraftPlan | None:
        """One step at a neighbouring length, when it may teach something worth its price."""
        self._steps_since_probe += 1
        if self._steps_since_probe < _PROBE_PAUSE:
            return None
        now, values = self._length, forecast.values
        for length in (now + 1, now - 1):
            if not 0 <= length < len(values):
                continue
            unmeasured = not self._cost.is_measured(load.num_requests, length)
            if not unmeasured and (length < now or not self._may_win(length, values)):
                continue
            price_s = forecast.price_s(length, now)
            if self._can_pay(price_s, forecast.seconds[now]):
                self._pay(price_s)
                self._steps_since_probe = 0
                return DraftPlan(length, f"probe: one step at {length} instead of {now}")
        return None

    def _may_win(self, length: int, values: list[float]) -> bool:
        """Whether a longer draft would win if its last position were accepted more often."""
        survival = self._acceptance.survival
        tokens = 1.0 + sum(survival[:length])
        gained = self._acceptance.optimistic_survival(length) - survival[length - 1]
        return values[length] * (1.0 + gained / tokens) > values[length - 1]

    def _probe_while_off(self, num_requests: int, forecast: _Forecast) -> DraftPlan | None:
        """A burst at the best length but 0, as often as the account allows."""
        values = forecast.values
        best = 1 + max(range(len(values) - 1), key=lambda k: values[k + 1])
        price_s = forecast.price_s(best, 0)
        first_steps = min(-(-_FIRST_VERDICTS // num_requests), _MAX_FIRST_STEPS)
        self._steps_off += 1
        if self._burst_steps > 0:
            goes_on = (
                self._burst_steps < _MAX_BURST_STEPS and self._is_promising(best, forecast)
                if self._burst_judged > 0
                else self._burst_steps < first_steps
            )
        else:
            goes_on = self._steps_off >= _BURST_PAUSE and self._can_pay(
                first_steps * price_s, forecast.seconds[0]
            )
            if goes_on:
                self._burst_judged = self._burst_accepted = 0
                self._burst_price_s = 0.0
        if not goes_on:
            if self._burst_judged > 0 or self._steps_off >= _BURST_PAUSE:
                self._burst_steps = 0
            return None
        self._steps_off = 0
        self._burst_steps += 1
        self._burst_price_s += price_s
        self._token_s = forecast.seconds[0] / forecast.tokens[0]
        self._pay(price_s)
        return DraftPlan(best, "probe while off: has acceptance come back?")

    def _is_promising(self, length: int, forecast: _Forecast) -> bool:
        """Whether drafting would win if every draft were accepted as those of the burst were."""
        tokens = forecast.tokens[0] * (1.0 + self._burst_accepted / self._burst_judged)
        return tokens / forecast.seconds[length] > forecast.values[0]


def _profile_lengths(max_draft_length: int) -> list[int]:
    """Lengths to visit first, last one first. Not the ceiling: at many requests it is dear."""
    return sorted({0, 1, min(4, max_draft_length)}) * _PROFILE_ROUNDS
