"""Drafts that end early by rules that change in every step, injected into an engine.

`vary_rules` is injected before vLLM starts (`faults`). The policy `fixed` then has a rule in every
step; at `FIXED_LENGTH` it drafts and verifies all tokens, for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from paceline.runtime.governor.acceptance.per_class import ClassRows
from paceline.runtime.governor.drafting.drafting_round import survival_of, widths_of
from paceline.runtime.governor.values import DraftPlan, DraftRule, EngineLoad, StepSample

FIXED_LENGTH = 8
_MAPS = {"greedy": (1.6, 0.6), "sampled": (0.8, 0.6), "greedy bound": (0.5, 0.6)}
_RULES = [
    DraftRule(_MAPS, least_survival, (pass_tokens,) * (FIXED_LENGTH - 1))
    for least_survival, pass_tokens in (
        (0.50, 0.2),
        (0.02, 0.0),
        (0.65, 0.0),
        (0.15, 1.0),
        (0.90, 0.3),
        (0.35, 0.5),
    )
]

_steps: list[dict[str, Any]] = []
_proposals: list[tuple[bool, int]] = []


def take_steps() -> list[dict[str, Any]]:
    """The samples since the last call."""
    taken, _steps[:] = list(_steps), []
    return taken


def keep_rules(indices: Sequence[int]) -> None:
    """From now on, vary only these rules, of those above."""
    _RULES[:] = [_RULES[index] for index in indices]


def vary_rules() -> None:
    """Another rule and another length in every step; one step in eleven drafts nothing."""
    from paceline.runtime.governor.policies.fixed import FixedPolicy

    fixed_plan = FixedPolicy.plan
    num_plans = 0
    rule: DraftRule | None = None

    def plan(self: FixedPolicy, load: EngineLoad) -> DraftPlan:
        nonlocal num_plans, rule
        rule = None
        planned = fixed_plan(self, load)
        if planned.draft_length == FIXED_LENGTH or not load.reports_confidences:
            return planned
        num_plans += 1
        if num_plans % 11 == 0:
            return DraftPlan(0, "injected")
        rule = _RULES[num_plans % len(_RULES)]
        length = max(load.max_draft_length - num_plans % 2, 0)
        return DraftPlan(length, "injected", rule=rule)

    def choose_widths(
        self: FixedPolicy, confidences: Any, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        assert rule is not None
        widths: list[int] = widths_of(
            rule, survival_of(rule, ClassRows(classes), confidences)
        ).tolist()
        return widths

    def observe(self: FixedPolicy, sample: StepSample) -> None:
        _steps.append(asdict(sample))

    FixedPolicy.plan = plan  # type: ignore[method-assign]
    FixedPolicy.observe = observe  # type: ignore[method-assign]
    FixedPolicy.choose_widths = choose_widths  # type: ignore[attr-defined]


def note_context_limit() -> None:
    """From now on `take_proposals` has an entry for each step that proposes drafts or none."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    propose, take = runner.propose_draft_token_ids, runner.take_draft_token_ids
    longest = 0

    def propose_draft_token_ids(self: Any, scheduler_output: Any, *given: Any, **named: Any) -> Any:
        nonlocal longest
        [longest] = [one.max_seq_len for one in given if hasattr(one, "max_seq_len")]
        return propose(self, scheduler_output, *given, **named)

    def take_draft_token_ids(self: Any) -> Any:
        taken = take(self)
        is_at_limit = longest + self.num_spec_tokens > self.effective_drafter_max_model_len
        _proposals.append((is_at_limit, sum(map(len, taken.draft_token_ids))))
        return taken

    runner.propose_draft_token_ids = propose_draft_token_ids
    runner.take_draft_token_ids = take_draft_token_ids


def take_proposals() -> list[tuple[bool, int]]:
    """Since the last call, by step: whether a request was so near the context limit that stock vLLM
    proposes zeros for all, and how many tokens were proposed."""
    taken, _proposals[:] = list(_proposals), []
    return taken


def fail_in_third_step() -> None:
    """As `vary_rules`, and the third step's confidences cannot be computed."""
    from paceline.runtime.engine.worker import early_stop

    vary_rules()
    confidences_of = early_stop.confidences_of
    num_passes = 0

    def failing(*arguments: Any) -> Any:
        nonlocal num_passes
        num_passes += 1
        if num_passes == 3:
            raise ZeroDivisionError("injected")
        return confidences_of(*arguments)

    early_stop.confidences_of = failing


def judge_by_drawn_token() -> None:
    """The confidence of a token is its own probability, so tokens are dropped for what they are.

    In a running engine. Every verdict remains right, only the answers have another distribution.
    """
    from paceline.runtime.engine.worker.early_stop import _StepPasses

    add_pass = _StepPasses.add_pass

    def add_pass_of_drawn(self: Any, token_ids: Any, probs: Any, logits: Any) -> None:
        drawn = probs if probs is None else probs.gather(1, token_ids.unsqueeze(1))
        add_pass(self, token_ids, drawn, logits)
        self._probs[-1] = probs

    _StepPasses.add_pass = add_pass_of_drawn  # type: ignore[method-assign]


def draft_evenly(token_ids: Sequence[int]) -> None:
    """From now on the draft model draws one of these tokens, each with the same probability."""

    def even(logits: Any) -> Any:
        logits.fill_(float("-inf"))
        logits[:, list(token_ids)] = 0.0
        return logits

    _change_draft_logits(even)


def sharpen_drafts(factor: float) -> None:
    """From now on the draft model's logits are `factor` times as large.

    The tokens that it prefers then have less probability by the target than by the draft model,
    and the acceptance threshold decides about them.
    """
    _change_draft_logits(lambda logits: logits.mul_(factor))


def _change_draft_logits(change: Callable[[Any], Any]) -> None:
    from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer

    proposer: Any = SpecDecodeBaseProposer
    stock = proposer._sample_draft_tokens

    def sample_draft_tokens(self: Any, *arguments: Any, **named: Any) -> Any:
        compute_logits = self.model.compute_logits
        self.model.compute_logits = lambda *given, **more: change(compute_logits(*given, **more))
        try:
            return stock(self, *arguments, **named)
        finally:
            self.model.compute_logits = compute_logits

    proposer._sample_draft_tokens = sample_draft_tokens


def drop_forbidden() -> None:
    """From now on drafts end before the first token that a grammar forbids, as in vLLM alone."""
    from paceline.runtime.engine.scheduler.forbidden_drafts import ForbiddenDrafts

    ForbiddenDrafts.keep = lambda *_: None  # type: ignore[method-assign]
