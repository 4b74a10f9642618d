"""Generate the target's answers, measure the draft on them, and compare with a server's report."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from paceline.draft.acceptance import (
    AcceptanceFigures,
    counts_under,
    estimate_figures,
    measure_drafts,
)
from paceline.draft.answers import AnswerFile, AnswerRequest, collect_answers
from paceline.draft.evaluation.served import ServedComparison, compare_with_served, read_report
from paceline.draft.interruption import StopRequest
from paceline.draft.models import (
    check_same_tokens,
    choose_device,
    find_folder,
    load_config,
    load_model,
    load_tokenizer,
    max_positions,
    serving_dtype,
    stop_token_ids,
)
from paceline.draft.progress import DraftProgress
from paceline.draft.prompts import read_prompts
from paceline.draft.values import Sampling
from paceline.engine.model_revision import revision_of_folder


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """The options of `paceline draft eval`."""

    target: str
    draft: str
    prompts_file: str
    samplings: tuple[Sampling, ...]
    max_draft_length: int
    max_tokens: int
    limit: int | None
    answers_per_prompt: int
    seed: int
    device: str
    answers_file: str | None
    served_file: str | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The figures of one draft on one file of prompts."""

    options: EvaluationOptions
    target_revision: str
    draft_revision: str
    prompts_sha256: str
    num_prompts: int
    num_too_long: int
    figures: Mapping[Sampling, AcceptanceFigures]
    served: ServedComparison | None


def evaluate(options: EvaluationOptions, progress: DraftProgress, stop: StopRequest) -> Evaluation:
    """Measure. DraftError if the two models do not fit or the prompts do not suffice."""
    device = choose_device(options.device)
    target, draft = find_folder(options.target), find_folder(options.draft)
    tokenizers = load_tokenizer(target), load_tokenizer(draft)
    check_same_tokens(target, draft, tokenizers)
    report = read_report(Path(options.served_file)) if options.served_file else None
    num_after_end = options.max_draft_length - 1
    prompts = read_prompts(
        Path(options.prompts_file),
        tokenizers[0],
        default_max_tokens=options.max_tokens,
        max_positions=max_positions(load_config(target), load_config(draft)),
        num_after_end=num_after_end,
        limit=options.limit,
    )
    request = AnswerRequest(
        prompts=prompts.prompts,
        samplings=options.samplings,
        stop_ids=stop_token_ids(target, tokenizers[0]),
        num_after_end=num_after_end,
        seed=options.seed,
        answers_per_prompt=options.answers_per_prompt,
    )
    target_revision = revision_of_folder(target)
    load = partial(load_model, dtype=serving_dtype(device), device=device)
    with tempfile.TemporaryDirectory(prefix="draft-eval-") as scratch:
        path = Path(options.answers_file or Path(scratch) / "answers.jsonl")
        file = AnswerFile(path, request.header(target_revision), prompts.prompts)
        target_model = load(target)
        answers = collect_answers(request, file, lambda: target_model, progress, stop)
    (counts,) = measure_drafts(
        target_model,
        [load(draft)],
        answers,
        max_draft_length=options.max_draft_length,
        progress=progress,
        stop=stop,
    )
    figures = {s: estimate_figures(counts_under(counts, s)) for s in options.samplings}
    return Evaluation(
        options=options,
        target_revision=target_revision,
        draft_revision=revision_of_folder(draft),
        prompts_sha256=prompts.sha256,
        num_prompts=len(prompts.prompts),
        num_too_long=prompts.num_too_long,
        figures=figures,
        served=(
            None
            if report is None
            else compare_with_served(report, figures, options.max_draft_length)
        ),
    )
