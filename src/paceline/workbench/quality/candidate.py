"""Check one candidate against a baseline, tier by tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from paceline.foundation.answer_quality.decisions import (
    Decision,
    Fidelity,
    OutcomeFigures,
    decide,
    judge_fidelity,
    judge_outcomes,
    pair_outcomes,
)
from paceline.foundation.answer_quality.divergence import count_broken
from paceline.foundation.answer_quality.values import AcceptanceChange, NotComputed, QualityError
from paceline.foundation.models.values import Answer, DraftError
from paceline.workbench.quality.acceptance import compare_acceptance
from paceline.workbench.quality.baseline import Baseline
from paceline.workbench.quality.identity import identity_of_folder
from paceline.workbench.quality.integrity import find_changed_files, find_refusals
from paceline.workbench.quality.models import Format, load_variant, read_format
from paceline.workbench.quality.models.formats import stored_name, tensor_files
from paceline.workbench.quality.models.kv_cache import round_kv_cache
from paceline.workbench.quality.prompts import find_other_tokens


@dataclass(frozen=True, slots=True)
class CandidateReport:
    """What was found about one candidate. Tiers after a fault are None."""

    model: str
    format: str
    """In words."""
    num_bytes: int
    """Of the weights."""
    fidelity: Fidelity | None
    outcomes: OutcomeFigures | None
    acceptance: tuple[AcceptanceChange, ...]
    acceptance_lacking: str
    """Why the change of acceptance is not known although it was asked for; "" otherwise."""
    decision: Decision


def check_candidate(baseline: Baseline, folder: Path) -> CandidateReport:
    """Run the tiers on a folder. Raises DraftError, QualityError or Interrupted."""
    num_bytes = sum(path.stat().st_size for path in tensor_files(folder))
    fidelity: Fidelity | None = None
    outcomes: OutcomeFigures | None = None
    acceptance: tuple[AcceptanceChange, ...] = ()
    acceptance_lacking = not_computed = ""
    try:
        form, faults = _check_folder(baseline, folder)
        if not faults:
            candidate = _Candidate(baseline, folder, form)
            fidelity, faults = candidate.fidelity()
            if fidelity is not None and not (fidelity.faults and baseline.options.ends_at_fault):
                outcomes = candidate.outcomes()
                acceptance, acceptance_lacking = candidate.acceptance()
    except NotComputed as error:
        form = Format(stored_name(folder), None, None, frozenset())
        faults, not_computed = (), str(error)
    return CandidateReport(
        model=str(folder),
        format=form.label,
        num_bytes=num_bytes,
        fidelity=fidelity,
        outcomes=outcomes,
        acceptance=acceptance,
        acceptance_lacking=acceptance_lacking,
        decision=decide(faults, fidelity, outcomes, not_computed),
    )


def _check_folder(baseline: Baseline, folder: Path) -> tuple[Format, tuple[str, ...]]:
    """Tier 1 without loading the weights: the format, and the faults.

    Raises NotComputed for a format that servers alone compute, unless there are other faults.
    """
    options = baseline.options
    unread = Format(stored_name(folder), None, None, frozenset())
    faults = find_refusals(unread.name, options.target)
    if faults:
        return unread, faults
    not_computed: NotComputed | None = None
    try:
        form = read_format(folder)
    except NotComputed as error:
        form, not_computed = unread, error
    except QualityError as error:
        return unread, (str(error),)
    faults = find_changed_files(folder, lambda _: baseline.stop.raise_if_set())
    other = find_other_tokens(
        baseline.file,
        folder,
        max_tokens=options.max_tokens,
        num_after_end=options.num_after_end,
        limit=options.limit,
    )
    faults = (*faults, other) if other else faults
    if not_computed is not None and not faults:
        raise not_computed
    return form, faults


class _Candidate:
    """A candidate that passed the checks of its folder. It is loaded when first needed."""

    def __init__(self, baseline: Baseline, folder: Path, form: Format) -> None:
        self._baseline, self._folder, self._form = baseline, folder, form
        stop = baseline.stop
        self._revision = identity_of_folder(folder, lambda _: stop.raise_if_set())

    def fidelity(self) -> tuple[Fidelity | None, tuple[str, ...]]:
        """The figures of tier 2, or why there are none. Raises NotComputed."""
        yardstick = self._baseline.yardstick(self._form)
        try:
            scores = self._baseline.candidate_scores(
                self._revision, lambda: self._model, f"the distributions of {self._folder.name}"
            )
        except NotComputed:
            raise
        except QualityError as error:
            return None, (str(error),)
        broken = count_broken(scores)
        if broken:
            return None, (f"its probabilities are not finite in {broken} of {len(scores)} texts",)
        found = judge_fidelity(
            self._baseline.texts,
            self._baseline.compare(scores),
            yardstick,
            self._baseline.options.limits,
        )
        return found, ()

    def outcomes(self) -> OutcomeFigures | None:
        """The figures of tier 3; None if no prompt has a score or no answer is greedy."""
        before = {
            answer.key: (answer.conversation, self._score(answer))
            for answer in self._baseline.answers
            if answer.sampling.is_greedy
        }
        if all(score is None for _, score in before.values()):
            return None
        after = {
            answer.key: self._score(answer) for answer in self._answers if answer.sampling.is_greedy
        }
        return judge_outcomes(pair_outcomes(before, after), self._baseline.options.limits)

    def acceptance(self) -> tuple[tuple[AcceptanceChange, ...], str]:
        """The change of acceptance under each sampling, or why it is not known.

        Both are empty without a draft.
        """
        options = self._baseline.options
        if options.draft is None:
            return (), ""
        counts = self._baseline.count_drafts(self._model, self._answers)
        try:
            changes = compare_acceptance(self._baseline.counts, counts, options.samplings)
        except DraftError as error:  # a candidate whose answers end at once is still rejected
            return (), str(error)
        return tuple(changes), ""

    @cached_property
    def _answers(self) -> Sequence[Answer]:
        return self._baseline.answers_of(self._identity, lambda: self._model)

    @cached_property
    def _model(self) -> Any:
        options = self._baseline.options
        model = load_variant(self._folder, self._form, options.dtype, options.device)
        if options.has_fp8_cache:
            round_kv_cache(model)
        return model

    @property
    def _identity(self) -> str:
        """Of what computes the answers: the folder alone does not say in which arithmetic."""
        options = self._baseline.options
        dtype = str(options.dtype).removeprefix("torch.")
        return f"{self._revision}-{dtype}-{options.target.kv_cache_format}"

    def _score(self, answer: Answer) -> float | None:
        ids = list(answer.token_ids[: answer.num_tokens])
        text = str(self._baseline.tokenizer.decode(ids, skip_special_tokens=True))
        return self._baseline.options.checker(self._baseline.file.records[answer.key], text)
