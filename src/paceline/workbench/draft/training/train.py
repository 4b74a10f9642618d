"""`paceline draft train`: answers, distillation, comparison on held-out prompts, promotion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from paceline.foundation.models.acceptance import (
    PromptCounts,
    counts_under,
    estimate_difference,
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
from paceline.foundation.models.prompts import PromptSet, read_prompts
from paceline.foundation.models.values import Answer, DraftError, EncodedPrompt, Sampling
from paceline.foundation.results.bootstrap import MIN_UNITS
from paceline.runtime.engine.model_revision import revision_of_folder
from paceline.workbench.draft.training.distil import TrainingPlan, TrainingState, distil
from paceline.workbench.draft.training.examples import trainable
from paceline.workbench.draft.training.head_kind import HeadKind
from paceline.workbench.draft.training.kind import DrafterKind
from paceline.workbench.draft.training.model_kind import DraftModelKind
from paceline.workbench.draft.training.promotion import Promotion, decide_promotion
from paceline.workbench.draft.training.provenance import (
    FILE_NAME,
    Comparison,
    DraftOrigin,
    render_provenance,
    render_unmeasured,
)
from paceline.workbench.draft.training.start import chosen_layers
from paceline.workbench.draft.training.work_folder import (
    check_disk,
    open_work_folder,
    write_result,
)


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The options of `paceline draft train`."""

    target: str
    draft: str | None
    """Draft to start from; None cuts one from the target."""
    present: str | None
    """Draft to compare with; None compares with `draft`, if that is given."""
    num_layers: int
    """Of a new draft model."""
    head: int | None
    """Tokens that a new head can draft; None trains a draft model instead of a head."""
    prompts_file: str
    out: Path
    resume: bool
    samplings: tuple[Sampling, ...]
    max_draft_length: int
    max_tokens: int
    plan: TrainingPlan
    device: str
    engine: Engine = "transformers"
    """What generates the target's answers."""
    answers_file: str | None = None
    """Where they are kept; None: in `out`."""


@dataclass(frozen=True, slots=True)
class TrainResult:
    """A finished training."""

    folder: Path
    """Of the new draft."""
    state: TrainingState
    num_trained: int
    num_held_out: int
    overall: Comparison
    by_sampling: Mapping[Sampling, Comparison]
    promotion: Promotion


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Everything that is checked and read before the first pass of a model."""

    device: torch.device
    kind: DrafterKind
    target: Path
    present: Path | None
    prompts: PromptSet
    trained: list[EncodedPrompt]
    held_out: list[EncodedPrompt]
    request: AnswerRequest
    target_revision: str
    start_revision: str | None
    num_positions: int
    """Of the longest prompt with its answer and what follows it."""


def train(options: TrainOptions, progress: DraftProgress, stop: StopRequest) -> TrainResult:
    """Train a draft, compare it with the present one, and write it with its provenance.

    DraftError if something does not fit; Interrupted after a signal, with everything finished on
    disk.
    """
    prepared = _prepare(options)
    load = partial(
        load_target,
        options.engine,
        prepared.target,
        prepared.device,
        prepared.num_positions,
        options.plan.seed,
    )
    header = prepared.request.header(prepared.target_revision)
    path = Path(options.answers_file or options.out / "answers.jsonl")
    file = AnswerFile(path, header, prepared.prompts.prompts)
    answers = collect_answers(prepared.request, file, load, progress, stop)
    state = _train_weights(options, prepared, answers, progress, stop)
    overall, by_sampling = _compare(options, prepared, answers, progress, stop)
    gain = overall.difference
    promotion = decide_promotion(None if gain is None else gain.acceptance_rate)
    folder = options.out / "draft"
    write_result(
        folder / FILE_NAME,
        render_provenance(
            _origin(options, prepared),
            options.plan,
            state,
            options.max_draft_length,
            overall,
            by_sampling,
            promotion,
        ),
    )
    return TrainResult(
        folder=folder,
        state=state,
        num_trained=len(prepared.trained),
        num_held_out=len(prepared.held_out),
        overall=overall,
        by_sampling=by_sampling,
        promotion=promotion,
    )


def _prepare(options: TrainOptions) -> _Prepared:
    device = choose_device(options.device)
    target = find_folder(options.target)
    start = find_draft_folder(options.draft) if options.draft else None
    present = find_draft_folder(options.present) if options.present else start
    tokenizer = load_tokenizer(target)
    config = load_config(target)
    configs = [config]
    for folder in (start, present):
        if folder is None:
            continue
        is_head = is_eagle3_head(folder)
        if folder is start and is_head != (options.head is not None):
            wrong = "an EAGLE-3 head; give --head, too" if is_head else "no EAGLE-3 head"
            raise DraftError(f"--draft is {folder}, which is {wrong}")
        check_drafter(target, folder, tokenizer)
        if not is_head:
            configs.append(load_config(folder))
    num_after_end = options.max_draft_length - 1
    prompts = read_prompts(
        Path(options.prompts_file),
        tokenizer,
        default_max_tokens=options.max_tokens,
        max_positions=max_positions(*configs),
        num_after_end=num_after_end,
    )
    trained, held_out = prompts.split()
    request = AnswerRequest(
        prompts=prompts.prompts,
        samplings=options.samplings,
        stop_ids=stop_token_ids(target, tokenizer),
        num_after_end=num_after_end,
        seed=options.plan.seed,
        engine=options.engine,
    )
    target_revision = revision_of_folder(target)
    start_revision = revision_of_folder(start) if start else None
    kind = _kind_of(options, device, target, start, request.stop_ids)
    num_prompt_tokens = sum(len(prompt.token_ids) for prompt in prompts.prompts)
    num_answer_tokens = sum(prompt.max_tokens + num_after_end for prompt in prompts.prompts)
    num_texts_tokens = len(options.samplings) * (num_prompt_tokens + num_answer_tokens)
    check_disk(
        options.out,
        kind.num_parameters(),
        len(options.samplings) * num_answer_tokens,
        num_state_bytes=num_texts_tokens * kind.bytes_per_token(),
    )
    open_work_folder(
        options.out,
        {
            "target_revision": target_revision,
            "start_revision": start_revision,
            "present_revision": revision_of_folder(present) if present else None,
            "layers": None if start or options.head else options.num_layers,
            "head_vocabulary": None if start else options.head,
            "prompts_sha256": prompts.sha256,
            "held_out_by": "conversation",
            "temperatures": [sampling.temperature for sampling in options.samplings],
            "max_draft_length": options.max_draft_length,
            "max_tokens": options.max_tokens,
            "loss": options.plan.loss,
            "seed": options.plan.seed,
            "steps": options.plan.num_steps,
            "minutes": options.plan.minutes,
            "rate_scale": options.plan.rate_scale,
            "adam_scale": options.plan.adam_scale,
            "engine": options.engine,
            "answers_file": options.answers_file,
        },
        resume=options.resume,
    )
    return _Prepared(
        device=device,
        kind=kind,
        target=target,
        present=present,
        prompts=prompts,
        trained=trained,
        held_out=held_out,
        request=request,
        target_revision=target_revision,
        start_revision=start_revision,
        num_positions=max(
            len(prompt.token_ids) + prompt.max_tokens + num_after_end for prompt in prompts.prompts
        ),
    )


def _kind_of(
    options: TrainOptions,
    device: torch.device,
    target: Path,
    start: Path | None,
    stop_ids: Set[int],
) -> DrafterKind:
    if options.head is None:
        return DraftModelKind(target, start, options.num_layers, device)
    return HeadKind(
        target=target,
        before=start,
        draft_vocab_size=options.head,
        always=tuple(sorted(stop_ids)),
        states=options.out / "states.bin",
        seed=options.plan.seed,
        device=device,
    )


def _train_weights(
    options: TrainOptions,
    prepared: _Prepared,
    answers: Sequence[Answer],
    progress: DraftProgress,
    stop: StopRequest,
) -> TrainingState:
    """Distil and write the draft's folder."""
    _require_measurable(options.samplings, prepared.held_out, answers)
    kind, examples = prepared.kind, _examples(prepared, answers)
    if not examples:
        raise DraftError(
            "every answer to the prompts for training has a single token, so there is nothing to "
            "draft; give other prompts, or raise their max_tokens"
        )
    student = kind.start(examples)
    loss_of = kind.lesson(examples, options.plan.loss, progress, stop)
    state = distil(
        student,
        loss_of,
        examples,
        options.plan,
        options.out,
        progress=progress,
        stop=stop,
    )
    kind.write(student, options.out / "draft", render_unmeasured())
    return state


def _examples(prepared: _Prepared, answers: Sequence[Answer]) -> list[Answer]:
    keys = {prompt.key for prompt in prepared.trained}
    return trainable([answer for answer in answers if answer.key in keys])


def _require_measurable(
    samplings: Sequence[Sampling], held_out: Sequence[EncodedPrompt], answers: Sequence[Answer]
) -> None:
    """Raise DraftError, before the training, if the comparison after it could not be made."""
    keys = {prompt.key for prompt in held_out}
    usable = [answer for answer in trainable(answers) if answer.key in keys]
    for sampling in samplings:
        found = {answer.conversation for answer in usable if answer.sampling == sampling}
        if len(found) < MIN_UNITS:
            raise DraftError(
                f"the answers ({sampling.label}) of only {len(found)} held-out conversations have "
                f"two or more tokens, and at least {MIN_UNITS} are needed to measure the gain; "
                "give other prompts, or raise their max_tokens"
            )


def _compare(
    options: TrainOptions,
    prepared: _Prepared,
    answers: Sequence[Answer],
    progress: DraftProgress,
    stop: StopRequest,
) -> tuple[Comparison, dict[Sampling, Comparison]]:
    """The draft that was written, and the present one, on the answers to held-out prompts."""
    keys = {prompt.key for prompt in prepared.held_out}
    drafters = [options.out / "draft"]
    if prepared.present is not None:
        drafters.append(prepared.present)
    target = load_model(prepared.target, serving_dtype(prepared.device), prepared.device)
    counts = [
        measure_drafter(
            target,
            prepared.target,
            drafter,
            [answer for answer in answers if answer.key in keys],
            max_draft_length=options.max_draft_length,
            progress=progress,
            stop=stop,
        )
        for drafter in drafters
    ]
    by_sampling = {
        sampling: _comparison(*(counts_under(one, sampling) for one in counts))
        for sampling in options.samplings
    }
    return _comparison(*counts), by_sampling


def _comparison(
    candidate: Sequence[PromptCounts], present: Sequence[PromptCounts] | None = None
) -> Comparison:
    return Comparison(
        present=None if present is None else estimate_figures(present),
        candidate=estimate_figures(candidate),
        difference=None if present is None else estimate_difference(candidate, present),
    )


def _origin(options: TrainOptions, prepared: _Prepared) -> DraftOrigin:
    start = options.draft
    if start is None and options.head is not None:
        start = "a new head"
    if start is None:
        num_target = load_config(prepared.target).num_hidden_layers
        layers = ", ".join(map(str, chosen_layers(num_target, options.num_layers)))
        start = f"layers {layers} of the target"
    return DraftOrigin(
        target=options.target,
        target_revision=prepared.target_revision,
        start=start,
        start_revision=prepared.start_revision,
        present=options.present or options.draft,
        prompts_sha256=prepared.prompts.sha256,
        num_trained=len(prepared.trained),
        num_held_out=len(prepared.held_out),
    )
