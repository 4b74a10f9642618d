"""The baseline's side of a comparison, made once for all candidates, and kept on disk."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from paceline.foundation.answer_quality.divergence import (
    Divergence,
    Scores,
    compare_scores,
    count_broken,
)
from paceline.foundation.answer_quality.values import QualityError, Text
from paceline.foundation.models.acceptance import PromptCounts
from paceline.foundation.models.answers import AnswerFile, AnswerRequest, collect_answers
from paceline.foundation.models.drafters import check_drafter, measure_drafter
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_model, load_tokenizer
from paceline.foundation.models.progress import DraftProgress
from paceline.foundation.models.values import Answer
from paceline.workbench.quality.identity import identity_of_folder
from paceline.workbench.quality.models import Format, round_model
from paceline.workbench.quality.models.formats import read_format
from paceline.workbench.quality.models.kv_cache import round_kv_cache
from paceline.workbench.quality.options import CompareOptions
from paceline.workbench.quality.prompts import read_prompt_file
from paceline.workbench.quality.scoring import score_texts
from paceline.workbench.quality.stored_scores import WorkFolder
from paceline.workbench.quality.texts import collect_texts

BASELINE_DTYPE = torch.float32
"""The most exact arithmetic that every device has."""


class Baseline:
    """The unquantized model with its answers, texts and scores.

    After a signal, every method that runs a model raises Interrupted.
    """

    def __init__(
        self,
        options: CompareOptions,
        work: WorkFolder,
        progress: DraftProgress,
        stop: StopRequest,
    ) -> None:
        """Read the prompts. Raises DraftError or QualityError where something does not fit."""
        self.options, self.work, self.progress, self.stop = options, work, progress, stop
        if read_format(options.baseline).scheme is not None:
            raise QualityError(
                f"BASELINE is {options.baseline}, which is quantized; give the unquantized model"
            )
        self.tokenizer: Any = load_tokenizer(options.baseline)
        if options.draft is not None:
            check_drafter(options.baseline, options.draft, self.tokenizer)
        self.revision = identity_of_folder(options.baseline, lambda _: stop.raise_if_set())
        self.file = read_prompt_file(
            options.prompts_file,
            options.baseline,
            max_tokens=options.max_tokens,
            num_after_end=options.num_after_end,
            limit=options.limit,
        )
        self.answers: list[Answer] = []
        """The baseline's own, after `measure`."""
        self.texts: list[Text] = []
        """What both models score, after `measure`."""
        self.scores: Mapping[str, Scores] = {}
        """The baseline's, of `texts`, after `measure`."""
        self.counts: list[PromptCounts] = []
        """What the draft is counted with, with the baseline as target, after `measure`."""
        self._yardsticks: dict[Format, Mapping[str, Divergence]] = {}

    def measure(self) -> None:
        """Answer the prompts and score the texts, and free the memory of the model.

        Raises QualityError if its probabilities are not finite.
        """
        options = self.options
        load = functools.cache(
            partial(load_model, options.baseline, BASELINE_DTYPE, options.device)
        )
        self.answers = self.answers_of(self.revision, load)
        self.texts = collect_texts(self.answers, self.file, self.tokenizer, options.max_tokens)
        self.scores = self.work.scores(
            self.texts,
            [self.revision, str(BASELINE_DTYPE)],
            lambda: self._score(load(), None, "the baseline's distributions"),
        )
        _require_finite(
            self.scores, f"the baseline, {options.baseline},", "give a sound unquantized model"
        )
        if options.draft is not None:
            self.counts = self.count_drafts(load(), self.answers)

    def yardstick(self, form: Format) -> Mapping[str, Divergence]:
        """The divergence of the baseline rounded to a format, computed as a candidate is.

        Raises QualityError if its probabilities are not finite.
        """
        if form not in self._yardsticks:
            options = self.options
            # An unquantized candidate in float32 is measured by the rounding of 16-bit arithmetic.
            is_exact = form.scheme is None and options.dtype is torch.float32
            dtype = torch.bfloat16 if is_exact else options.dtype

            def make() -> Mapping[str, Scores]:
                model = load_model(options.baseline, dtype, options.device)
                round_model(model, form)
                if options.has_fp8_cache:
                    round_kv_cache(model)
                return self._score(model, self.scores, f"plain rounding to {form.label}")

            made_of = [self.revision, "rounded", form.label, *sorted(form.matrices), str(dtype)]
            scores = self.work.scores(self.texts, [*made_of, self._cache], make)
            _require_finite(
                scores, f"the baseline rounded to {form.label} in {dtype}", "give another --dtype"
            )
            self._yardsticks[form] = self.compare(scores)
        return self._yardsticks[form]

    def candidate_scores(self, revision: str, load: Any, what: str) -> Mapping[str, Scores]:
        """The scores of a candidate from disk, or made with the model that `load` returns."""
        made_of = [revision, str(self.options.dtype), self._cache]
        return self.work.scores(self.texts, made_of, lambda: self._score(load(), self.scores, what))

    def compare(self, scores: Mapping[str, Scores]) -> dict[str, Divergence]:
        """The divergence of each text."""
        return {text.key: compare_scores(self.scores[text.key], scores[text.key])
                for text in self.texts}  # fmt: skip

    def answers_of(self, revision: str, load: Any) -> list[Answer]:
        """The answers of the model that `load` returns to the same prompts."""
        options = self.options
        request = AnswerRequest(
            prompts=self.file.prompts.prompts,
            samplings=options.samplings,
            stop_ids=self.file.stop_ids,
            num_after_end=options.num_after_end,
            seed=options.seed,
        )
        path = self.work.answers(revision)
        header = request.header(revision)
        file = AnswerFile(path, header, self.file.prompts.prompts)
        return collect_answers(request, file, load, self.progress, self.stop)

    def count_drafts(self, target: Any, answers: Sequence[Answer]) -> list[PromptCounts]:
        """The counts of the draft on a target's answers."""
        options = self.options
        assert options.draft is not None
        return measure_drafter(
            target,
            options.baseline,
            options.draft,
            answers,
            max_draft_length=options.max_draft_length,
            progress=self.progress,
            stop=self.stop,
        )

    @property
    def _cache(self) -> str:
        return self.options.target.kv_cache_format

    def _score(
        self, model: Any, baseline: Mapping[str, Scores] | None, what: str
    ) -> Mapping[str, Scores]:
        return score_texts(
            model, self.texts, baseline, what=what, progress=self.progress, stop=self.stop
        )


def _require_finite(scores: Mapping[str, Scores], model: str, remedy: str) -> None:
    broken = count_broken(scores)
    if broken:
        raise QualityError(
            f"the probabilities of {model} are not finite in {broken} of {len(scores)} texts, so "
            f"no candidate can be compared with it; {remedy}"
        )
