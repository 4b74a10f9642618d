"""Weights for the verdicts of requests that differ in their rate.

A verdict counts by what one more token is worth to its request. Where another request takes the
slot of one that has ended, throughput depends on how soon requests end: with T_i(k) tokens per step
of request i, one more token per step shortens its stay by the fraction 1 / T_i, so the best length
is the one with the highest

    sum over requests of T_i(k) / T_i(now), over the time of a step

and not the one with the most tokens in the next step. Easy requests are fast already: drafting for
them alone ends them sooner, and leaves a batch of hard ones. In simulation, with everything known,
maximising the tokens of each step yields 98 to 99 % of the best single length on mixed traffic,
this rule 99.6 to 101.7 % (docs/experiments/simulated-machines.md). Hence verdicts are weighted by
1 / T_i, and the survival learned from them (see `acceptance`) is the one whose sum is maximised.
Where all requests are alike, the weights change nothing.

T_i is a fading mean of the tokens that the request's steps yielded, shrunk towards the mean of all
requests, with which a new request starts:

    T_i = (strength * T + tokens_i) / (strength + steps_i)

taken before the verdict that it weights. At most `_MAX_WEIGHED` verdicts of a step are used, and
others in the next step: enough for a mean, at a bounded cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from paceline.governor.values import StepSample

# All chosen empirically on the simulator.
_STRENGTH = 4.0
_KEEP = 0.97
_MEAN_SHARE = 0.05
_MAX_WEIGHED = 32
_MAX_KNOWN = 4096
_LEAST_ALIKE = 0.875
"""Least fraction of a step's drafts that have the same length."""
_NOTHING = (0.0, 0.0)


class RequestWeights:
    """Tracks how many tokens per step each request yields."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, float]] = {}  # tokens, steps
        self._mean: float | None = None
        self._turn = 0

    def weigh(self, sample: StepSample) -> Mapping[tuple[int, int], float] | None:
        """Weighted counts of (drafted, accepted), of weight 1 on average; learns from them too.

        None where weights do not apply: one request, requests without ids, or drafts of which more
        than a few differ in length. These come from drafters that seldom offer: their few verdicts
        are all needed, and a request's rate then depends on the offers more than on the request.
        """
        judged, drafted, accepted = sample.judged, sample.drafted, sample.accepted
        if len(judged) < 2:
            return None
        num_alike = drafted.count(drafted[0])
        if num_alike < len(drafted):
            num_alike = max(num_alike, drafted.count(drafted[-1]), drafted.count(max(drafted)))
            if num_alike < _LEAST_ALIKE * len(drafted):
                return None
        if len(judged) > _MAX_WEIGHED:
            self._turn = 0 if self._turn >= len(judged) else self._turn
            part = slice(self._turn, self._turn + _MAX_WEIGHED)
            judged, drafted, accepted = judged[part], drafted[part], accepted[part]
            self._turn += _MAX_WEIGHED
        mean = 1.0 + sum(accepted) / len(accepted)
        if self._mean is not None:
            mean = self._mean + _MEAN_SHARE * (mean - self._mean)
        self._mean = mean
        if len(self._known) > _MAX_KNOWN:
            # Those weighed last stay: a dictionary keeps the order of insertion.
            for request in list(islice(self._known, _MAX_KNOWN // 2)):
                del self._known[request]
        known, first_tokens = self._known, _STRENGTH * mean
        counts: dict[tuple[int, int], float] = {}
        total = 0.0
        for request, length, num_accepted in zip(judged, drafted, accepted, strict=True):
            tokens, steps = known.pop(request, _NOTHING)
            weight = (_STRENGTH + steps) / (first_tokens + tokens)
            known[request] = (_KEEP * tokens + 1.0 + num_accepted, _KEEP * steps + 1.0)
            verdict = (length, num_accepted)
            if verdict in counts:
                counts[verdict] += weight
            else:
                counts[verdict] = weight
            total += weight
        scale = len(judged) / total
        return {verdict: scale * weight for verdict, weight in counts.items()}
