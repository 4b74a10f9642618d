"""Answer the prompts, write rows and script, and execute the script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import torch

from paceline.foundation.models.answers import AnswerFile, AnswerRequest, collect_answers
from paceline.foundation.models.interruption import stop_on_signals
from paceline.foundation.models.models import (
    load_config,
    load_model,
    load_tokenizer,
    stop_token_ids,
)
from paceline.foundation.models.progress import draft_progress
from paceline.foundation.models.prompts import PromptSet, read_prompts
from paceline.foundation.models.values import Answer, Sampling
from paceline.runtime.engine.model_revision import revision_of_folder
from paceline.workbench.draft.eagle3.plan import Eagle3Plan, check_gpus, check_plan
from paceline.workbench.draft.eagle3.script import render_rows, render_script


def check_run(plan: Eagle3Plan, prompts_file: Path, max_tokens: int) -> PromptSet:
    """The prompts, after every check that needs no GPU. Raises DraftError."""
    check_plan(plan, load_config(plan.target))
    return read_prompts(
        prompts_file,
        load_tokenizer(plan.target),
        default_max_tokens=max_tokens,
        max_positions=plan.seq_length,
        num_after_end=0,
    )


def script_of(plan: Eagle3Plan) -> str:
    """The script that `execute_run` executes."""
    return render_script(plan, plan.out / "rows.jsonl")


def execute_run(plan: Eagle3Plan, prompts: PromptSet, samplings: tuple[Sampling, ...]) -> int:
    """Train; returns the exit code of the script.

    DraftError without the GPUs of the plan. Raises Interrupted while the target answers.
    """
    check_gpus(plan, torch.cuda.device_count())
    plan.out.mkdir(parents=True, exist_ok=True)
    (plan.out / "rows.jsonl").write_text("".join(render_rows(_answer(plan, prompts, samplings))))
    script = plan.out / "train-eagle3.sh"
    script.write_text(script_of(plan))
    torch.cuda.empty_cache()
    return subprocess.run(["bash", str(script)], check=False).returncode


def _answer(plan: Eagle3Plan, prompts: PromptSet, samplings: tuple[Sampling, ...]) -> list[Answer]:
    request = AnswerRequest(
        prompts=prompts.prompts,
        samplings=samplings,
        stop_ids=stop_token_ids(plan.target, load_tokenizer(plan.target)),
        num_after_end=0,
        seed=plan.seed,
    )
    header = request.header(revision_of_folder(plan.target))
    file = AnswerFile(plan.out / "answers.jsonl", header, prompts.prompts)
    device = torch.device("cuda", plan.train_gpus[0])

    def load() -> object:
        return load_model(plan.target, torch.bfloat16, device)

    with stop_on_signals() as stop, draft_progress() as progress:
        return collect_answers(request, file, load, progress, stop)
