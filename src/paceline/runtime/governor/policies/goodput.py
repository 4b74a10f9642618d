"""The default policy: the draft length with the most expected tokens per second, at every step.

The lengths are compared by `forecast`: acceptance by class of request, cost by the table measured
at the start of the engine. The best one is taken, without hysteresis: on recorded drafts every rule
that delayed a change, or drafted in order to measure a cost, lost more than it gained
(docs/experiments/governor.md).

Where the engine reports how sure the draft model is, and steps are long enough to pay for reading
it, a step may draft further than the best length, and stops when no further pass is worth its time.
Requests get different numbers of verified tokens: a token is verified while its chance is worth its
price (`drafting`).

At length 0 nothing is learned about acceptance. So now and then a step has a test draft of the
shortest length, the more often the less it costs and the more could be gained (`undrafted_pause`).

With an objective for the time between two chunks of an answer, lengths whose step would take longer
are left out: goodput under a constraint.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np

from paceline.foundation.capacity.cost_table import CostTable, LoadCosts, at
from paceline.runtime.governor.acceptance.acceptance_by_class import AcceptanceByClass
from paceline.runtime.governor.acceptance.confidence_map import ConfidenceMaps, Floats, logits_of
from paceline.runtime.governor.acceptance.per_class import ANY_CLASS, ClassRows
from paceline.runtime.governor.costs.cost_model import CostModel
from paceline.runtime.governor.costs.prompt_share import PromptShare
from paceline.runtime.governor.drafting.drafting_round import survival_of, widths_of
from paceline.runtime.governor.drafting.width_price import WidthPrice
from paceline.runtime.governor.forecast import StepForecast, make_forecast
from paceline.runtime.governor.policies.undrafted_pause import UndraftedPause
from paceline.runtime.governor.policy_definition import PolicyDefinition
from paceline.runtime.governor.values import DraftPlan, DraftRule, EngineLoad, StepSample

_SHOWN_POSITIONS = 4
_LEAST_CONFIDENT_STEP_S = 0.03
"""Reading, mapping and weighing confidences takes 0.7 to 1 ms of a step, and gains some 3 %."""
_DEEPER_VALUE = 0.9
"""Of the best length for all requests: the least value of the length up to which some requests may
have more. Where verification gets expensive at once, as with 288 rows on two cores, the price of
the step before lets too many through: without a limit, 32 requests of predictable text lost a
fifth."""
_MOST_RESTS = 8
"""Steps at length 0 that are planned at once while the load stays: nothing is learned of acceptance
in them, and a plan takes up to a thirtieth of a step of a small model."""
_LEARNED_REQUESTS = 16
"""Requests whose confidences are learned in a step, in turn: the map counts a step as 16 verdicts,
and all of them would take longer than the rest of the policy."""


class GoodputPolicy:
    """Maximises expected tokens per second. One instance per engine."""

    chooses_widths = True
    """Whether requests get different numbers of verified tokens where the engine can."""

    def __init__(
        self,
        max_draft_length: int,
        *,
        max_step_s: float = math.inf,
        cost_table: CostTable | None = None,
    ) -> None:
        """`max_step_s` is the objective for the time between two chunks of an answer. `cost_table`
        is None where no cost was measured."""
        if max_draft_length < 1:
            raise ValueError(f"max_draft_length is {max_draft_length}; it must be at least 1")
        if not max_step_s > 0.0:
            raise ValueError(f"max_step_s is {max_step_s}; it must be positive")
        self._max_step_s = max_step_s
        self._acceptance = AcceptanceByClass(max_draft_length)
        self._cost = CostModel(cost_table, max_draft_length)
        self._prompts = PromptShare()
        self._pause = UndraftedPause(is_cost_measured=cost_table is not None)
        self._maps = ConfidenceMaps()
        self._price = WidthPrice()
        self._load: EngineLoad | None = None
        self._costs: LoadCosts | None = None
        self._rule: DraftRule | None = None
        self._length = 0
        self._test_length = 0
        self._first_learned = 0
        self._rest: tuple[tuple[Any, ...], DraftPlan] | None = None
        self._rest_left = 0
        self.step_seconds: Sequence[float] = ()
        """See `KnowsStepTime`."""

    def observe(self, sample: StepSample) -> None:
        """Learn acceptance from every step, cost from the clean ones."""
        if sample.drafted:
            self._rest = None
        is_tested = sample.requested_draft_length == self._test_length > 0
        if is_tested and sample.accepted:
            self._pause.judge(
                sum(accepted > 0 for accepted in sample.accepted),
                len(sample.accepted),
                self._acceptance.survival(Counter(sample.classes))[0],
            )
        if (
            sample.catches_up
            and sample.duration_s
            and sample.num_requests
            and not sample.prefill_tokens
        ):
            costs = self._cost.load(sample.num_requests, sample.context_tokens)
            step_s = costs.step_s(sample.verified_draft_tokens, sample.draft_length)
            self._pause.caught_up(sample.duration_s - step_s)
        self._acceptance.observe(sample)
        self._cost.observe(sample)
        self._prompts.observe(sample)
        if sample.confidences:
            self._learn_confidences(sample)

    def plan(self, load: EngineLoad) -> DraftPlan:
        """The best length; at 0 now and then a test draft."""
        kind = (
            load.num_requests, load.num_prefilling, load.num_undrafted, load.max_draft_length,
            load.allowed_lengths, load.reports_confidences, load.classes, load.num_waiting > 0,
        )  # fmt: skip
        if self._rest is not None and self._rest_left and self._rest[0] == kind:
            self._rest_left -= 1
            self._pause.count_step()
            return self._rest[1]
        self._rest_left = 0
        plan = self._new_plan(load)
        self._rest = (kind, plan) if self._rest_left else None
        return plan

    def _new_plan(self, load: EngineLoad) -> DraftPlan:
        self._load, self._rule = load, None
        lengths = load.allowed_below(load.max_draft_length + 1)
        if load.num_requests == 0 or len(lengths) == 1:
            return DraftPlan(0, "no requests or no drafting allowed")
        if load.num_drafting == 0:  # one pass keeps the draft model up with the prompts
            return DraftPlan(lengths[1] if self._length else 0, "no request takes drafts")
        costs = self._costs = self._cost.load(load.num_requests, load.context_tokens)
        forecast = make_forecast(load, self._acceptance, costs, self._prompts)
        has_unit = self._cost.has_unit
        self.step_seconds = forecast.seconds if has_unit else ()
        plain_seconds = forecast.seconds
        forecast = self._weigh(load, forecast)
        if has_unit:
            forecast = forecast.within(self._max_step_s)
            lengths = load.allowed_below(len(forecast.values))
        length = forecast.best(lengths)
        rate, step_s = forecast.tokens[length] / forecast.seconds[length], forecast.seconds[length]
        drafted = max(length, lengths[1]) if len(lengths) > 1 else 0
        if drafted and self._wants_confidences(load, forecast.seconds[drafted]):
            self._rule = self._rule_for(load, costs, forecast, drafted)
            deepest = _deepest(forecast, lengths, drafted)
            if length or self._is_worth_starting(load, costs, self._rule, deepest):
                rate, step_s, length = self._price.rate, forecast.seconds[drafted], deepest
        else:
            self._price.forget()
        self._length = length
        if length:
            self._test_length = 0
            self._pause.ended()
        else:
            # A test draft is verified whole, and its confidences are reported.
            rule = None if self._rule is None else replace(self._rule, least_survival=0.0)
            self._rule = None
            self._price.forget()
            if len(lengths) > 1 and self._pause.is_over(
                load.num_requests, load.classes, plain_seconds, lengths[1]
            ):
                self._test_length, self._rule = lengths[1], rule
                return DraftPlan(lengths[1], "off: one test draft", is_exploring=True, rule=rule)
            if len(lengths) > 1:
                self._rest_left = min(_MOST_RESTS, self._pause.steps_left())
        return DraftPlan(
            length,
            self._reason(length, load, step_s),
            expected_tokens_per_s=rate if has_unit else None,
            rule=self._rule,
        )

    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        """See `ChoosesWidths`."""
        num_requests, num_passes = confidences.shape
        load, costs, rule = self._load, self._costs, self._rule
        if rule is None or costs is None or load is None or not confidences.size:
            return [num_passes] * num_requests
        rows = ClassRows(classes)
        survival = survival_of(rule, rows, confidences)
        widths = widths_of(rule, survival)
        self._acceptance.learn_dropped(rows, survival, widths)
        is_possible = np.arange(num_passes) < np.array(limits)[:, None]
        self._price.settle(load.num_decoding, survival[is_possible], costs, num_passes)
        chosen: list[int] = widths.tolist()
        return chosen

    def _wants_confidences(self, load: EngineLoad, step_s: float) -> bool:
        if not (self.chooses_widths and load.reports_confidences):
            return False
        return not self._cost.has_unit or step_s >= _LEAST_CONFIDENT_STEP_S

    def _weigh(self, load: EngineLoad, forecast: StepForecast) -> StepForecast:
        """The forecast whose values are the objective of this policy."""
        return forecast

    def _rule_for(
        self, load: EngineLoad, costs: LoadCosts, forecast: StepForecast, length: int
    ) -> DraftRule:
        """`length` is the best uniform one."""
        num_tokens = load.num_drafting * max(length, 2)  # the first token's bend is counted apart
        last_third_s = costs.step_s(num_tokens, 0) - costs.step_s(2.0 / 3.0 * num_tokens, 0)
        return self._price.rule(
            load.num_requests,
            maps=self._maps.coefficients(_classes_of(load)),
            draft_s=[at(costs.draft_s, length) for length in range(load.max_draft_length + 1)],
            first_rate=forecast.tokens[length] / forecast.seconds[length],
            first_price_s=last_third_s / (num_tokens / 3.0),
        )

    def _is_worth_starting(
        self, load: EngineLoad, costs: LoadCosts, rule: DraftRule, longest: int
    ) -> bool:
        """Whether some number of passes up to `longest` is worth its time, by the acceptance of the
        classes."""
        price = self._price.rate * (at(costs.draft_s, 1) + costs.first_verified_s)
        gain = 0.0
        hazards = [
            (count, self._acceptance.hazards(name)) for name, count in _classes_of(load).items()
        ]
        for position in range(longest):
            gain += sum(
                count * max(found.survival[position] - rule.least_survival, 0.0)
                for count, found in hazards
            )
            if gain > price:
                return True
            if position < len(rule.pass_tokens):
                price += rule.pass_tokens[position]
        return False

    def _learn_confidences(self, sample: StepSample) -> None:
        first, count = self._first_learned, len(sample.accepted)
        self._first_learned = first + _LEARNED_REQUESTS if first + _LEARNED_REQUESTS < count else 0
        learned = slice(first, first + _LEARNED_REQUESTS)
        classes = sample.classes or (ANY_CLASS,) * count
        tokens: dict[str, tuple[list[float], list[float]]] = {}
        for name, row, num_accepted in zip(
            classes[learned], sample.confidences[learned], sample.accepted[learned], strict=True
        ):
            confidences, verdicts = tokens.setdefault(name, ([], []))
            confidences += row[: num_accepted + 1]
            verdicts += [1.0] * num_accepted
            if num_accepted < len(row):
                verdicts.append(0.0)
        for name, (confidences, verdicts) in tokens.items():
            self._maps.learn(name, logits_of(np.array(confidences)), np.array(verdicts))

    def _reason(self, length: int, load: EngineLoad, step_s: float) -> str:
        survival = self._acceptance.survival(load.classes)
        shown = ", ".join(f"{s:.2f}" for s in survival[: min(max(length, 1), _SHOWN_POSITIONS)])
        up_to = "" if self._rule is None else "up to "
        chosen = f"{up_to}{length} of {load.max_draft_length}: acceptance {shown}"
        if not self._cost.has_unit:
            return chosen
        return f"{chosen}; {1e3 * step_s:.3g} ms a step"


def _deepest(forecast: StepForecast, lengths: Sequence[int], best: int) -> int:
    """The last of `lengths` from `best` on before one that is clearly worse for all requests."""
    least = _DEEPER_VALUE * forecast.values[best]
    worthy = takewhile(lambda one: one <= best or forecast.values[one] >= least, lengths)
    return max(worthy)


def _classes_of(load: EngineLoad) -> Mapping[str, int]:
    return load.classes or {ANY_CLASS: load.num_drafting}


POLICY = PolicyDefinition(
    name="goodput",
    summary="The length with the most expected tokens per second, by measured acceptance and cost.",
    create=GoodputPolicy,
    takes_max_step_s=True,
    takes_cost_table=True,
)
