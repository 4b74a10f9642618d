"""Generate the target's answers, measure the draft on them, and compare with a server's report."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from paceline.foundation.models.acceptance import (
    AcceptanceFigures,
    PromptCounts,
    counts_under,
    estimate_figures,
)
from paceline.foundation.models.answers import (
    AnswerFile,
    AnswerRequest,
    Engine,
    collect_answers,
    load_target,
)
from paceline.foundation.models.drafters import check_drafter, measure_drafter
from paceline.foundation.models.eagle_head import is_eagle3_head
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import (
    choose_device,
    find_draft_folder,
    find_folder,
    load_config,
    load_model,
    load_tokenizer,
    max_positions,
    serving_dtype,
    stop_token_ids,
)
from paceline.foundation.models.progress import DraftProgress
from paceline.foundation.models.prompts import read_prompts
from paceline.foundation.models.values import DraftError, EncodedPrompt, Sampling
from paceline.foundation.results.bootstrap import MIN_UNITS
from paceline.runtime.engine.model_revision import revision_of_folder
from paceline.workbench.draft.evaluation.served import (
    ServedComparison,
    check_report,
    compare_with_served,
    read_report,
)


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
    engine: Engine = "transformers"
    """What generates the target's answers."""
    held_out: bool = False
    """Whether only the prompts count that a training on this file holds out."""


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
    by_category: Mapping[str, Mapping[Sampling, AcceptanceFigures]]
    """Where the prompts name two categories or more: of each that has enough conversations."""
    served: ServedComparison | None


def evaluate(options: EvaluationOptions, progress: DraftProgress, stop: StopRequest) -> Evaluation:
    """Measure. DraftError if the two models do not fit or the prompts do not suffice."""
    device = choose_device(options.device)
    target, draft = find_folder(options.target), find_draft_folder(options.draft)
    tokenizer, configs = load_tokenizer(target), [load_config(target)]
    check_drafter(target, draft, tokenizer)
    if not is_eagle3_head(draft):
        configs.append(load_config(draft))
    report = read_report(Path(options.served_file)) if options.served_file else None
    if report is not None:
        check_report(report, options.samplings, options.max_draft_length)
    num_after_end = options.max_draft_length - 1
    prompts = read_prompts(
        Path(options.prompts_file),
        tokenizer,
        default_max_tokens=options.max_tokens,
        max_positions=max_positions(*configs),
        num_after_end=num_after_end,
        limit=None if options.held_out else options.limit,
    )
    if options.held_out:
        prompts = replace(prompts, prompts=tuple(prompts.split()[1][: options.limit]))
    _refuse_too_few(prompts.prompts, options.limit)
    request = AnswerRequest(
        prompts=prompts.prompts,
        samplings=options.samplings,
        stop_ids=stop_token_ids(target, tokenizer),
        num_after_end=num_after_end,
        seed=options.seed,
        answers_per_prompt=options.answers_per_prompt,
        engine=options.engine,
    )
    target_revision = revision_of_folder(target)
    with tempfile.TemporaryDirectory(prefix="draft-eval-") as scratch:
        path = Path(options.answers_file or Path(scratch) / "answers.jsonl")
        file = AnswerFile(path, request.header(target_revision), prompts.prompts)
        longest = max(len(p.token_ids) + p.max_tokens + num_after_end for p in prompts.prompts)
        load = partial(load_target, options.engine, target, device, longest, options.seed)
        answers = collect_answers(request, file, load, progress, stop)
    target_model = load_model(target, serving_dtype(device), device)
    counts = measure_drafter(
        target_model,
        target,
        draft,
        answers,
        max_draft_length=options.max_draft_length,
        progress=progress,
        stop=stop,
    )
    figures = {
        sampling: estimate_figures(counts_under(counts, sampling)) for sampling in options.samplings
    }
    return Evaluation(
        options=options,
        target_revision=target_revision,
        draft_revision=revision_of_folder(draft),
        prompts_sha256=prompts.sha256,
        num_prompts=len(prompts.prompts),
        num_too_long=prompts.num_too_long,
        figures=figures,
        by_category=_figures_by_category(prompts.prompts, counts, options.samplings),
        served=(
            None
            if report is None
            else compare_with_served(report, figures, options.max_draft_length)
        ),
    )


def _refuse_too_few(prompts: Sequence[EncodedPrompt], limit: int | None) -> None:
    """DraftError, before minutes of answering, where no interval can follow."""
    num_conversations = len({prompt.conversation for prompt in prompts})
    if num_conversations < MIN_UNITS:
        raise DraftError(
            f"{num_conversations} different conversations have prompts that fit the models"
            + ("" if limit is None else f", with --limit {limit}")
            + f"; at least {MIN_UNITS} are needed for an interval. Give more prompts"
            + ("" if limit is None else ", or raise --limit")
        )


def _figures_by_category(
    prompts: Sequence[EncodedPrompt],
    counts: Sequence[PromptCounts],
    samplings: Sequence[Sampling],
) -> dict[str, dict[Sampling, AcceptanceFigures]]:
    category_of = {prompt.key: prompt.category for prompt in prompts}
    categories = sorted(set(category_of.values()) - {""})
    found: dict[str, dict[Sampling, AcceptanceFigures]] = {}
    for category in categories if len(categories) > 1 else []:
        of_category = [one for one in counts if category_of[one.key] == category]
        for sampling in samplings:
            with suppress(DraftError):  # too few conversations for an interval
                figures = estimate_figures(counts_under(of_category, sampling))
                found.setdefault(category, {})[sampling] = figures
    return found
