"""`paceline draft train-eagle3` up to the point at which it needs a GPU.

The options of speculators' scripts are those of their argument parsers at commit c05b95b3
(2026-08-20, after 0.7.0).
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from transformers import LlamaConfig

from paceline.cli import main
from paceline.foundation.models.values import Answer, DraftError, Sampling
from paceline.workbench.draft.eagle3.plan import Eagle3Plan, check_gpus, check_plan, parse_gpus
from paceline.workbench.draft.eagle3.script import (
    prepare_command,
    render_rows,
    render_script,
    serve_command,
    train_command,
)
from unit.draft.conftest import TinyPair
from unit.draft.tiny_models import write_model

OPTIONS = {
    "prepare_data.py": {
        "--model", "--data", "--seq-length", "--max-samples", "--token-freq-path", "--output",
        "--render-endpoint", "--overwrite", "--seed", "--num-preprocessing-workers",
        "--minimum-valid-tokens", "--allow-empty-output", "--trust-remote-code",
    },
    "launch_vllm.py": {
        "--hidden-states-backend", "--hidden-states-path", "--target-layer-ids",
        "--include-last-layer", "--dry-run", "--trust-remote-code",
    },
    "train.py": {
        "--verifier-name-or-path", "--speculator-type", "--data-path", "--on-missing",
        "--on-generate", "--hidden-states-path", "--vllm-endpoint", "--total-seq-len",
        "--draft-vocab-size", "--save-path", "--epochs", "--lr", "--seed", "--save-best",
    },
}  # fmt: skip


@pytest.fixture
def plan(tmp_path: Path) -> Eagle3Plan:
    scripts = tmp_path / "speculators" / "scripts"
    scripts.mkdir(parents=True)
    for name in OPTIONS:
        (scripts / name).touch()
    return Eagle3Plan(
        target=tmp_path / "a target",
        out=tmp_path / "out",
        checkout=tmp_path / "speculators",
        speculators_python=Path(sys.executable),
        vllm_python=Path(sys.executable),
        vllm_gpus=(0, 1),
        train_gpus=(2,),
        draft_vocab_size=64,
        epochs=3,
        learning_rate=1e-4,
        seq_length=90,
        port=8100,
        seed=7,
    )


def config(**changes: Any) -> LlamaConfig:
    values = {"num_hidden_layers": 8, "vocab_size": 100, "max_position_embeddings": 96}
    return LlamaConfig(**{**values, **changes})


def test_commands_use_options_that_the_scripts_have(plan: Eagle3Plan) -> None:
    commands = (prepare_command(plan, Path("rows")), serve_command(plan), train_command(plan))
    for command in commands:
        name = next(Path(word).name for word in command if word.endswith(".py"))
        words = command[: command.index("--")] if "--" in command else command
        given = {word for word in words[words.index(_script(words)) :] if word.startswith("--")}
        assert given <= OPTIONS[name]


def _script(words: list[str]) -> str:
    return next(word for word in words if word.endswith(".py"))


def test_the_script_is_valid_bash_and_names_the_gpus(plan: Eagle3Plan, tmp_path: Path) -> None:
    text = render_script(plan, plan.out / "rows.jsonl")
    path = tmp_path / "script.sh"
    path.write_text(text)
    subprocess.run(["bash", "-n", str(path)], check=True)
    assert "CUDA_VISIBLE_DEVICES=0,1 " in text
    assert "CUDA_VISIBLE_DEVICES=2 " in text
    assert f"'{plan.target}'" in text
    assert "--data-parallel-size 2" in text
    assert "--nproc_per_node 1" in text


def test_rows_mark_the_answer_and_leave_out_what_follows_its_end() -> None:
    rows = list(render_rows([Answer("k", "c", Sampling(0.0), (5, 6), (7, 1, 9), 2)]))
    assert [json.loads(row) for row in rows] == [
        {"input_ids": [5, 6, 7, 1], "loss_mask": [0, 0, 1, 1]}
    ]


@pytest.mark.parametrize(
    ("changes", "target", "message"),
    [
        ({"checkout": Path("/nowhere")}, {}, r"no scripts/prepare_data\.py"),
        ({"speculators_python": Path("/nowhere/python")}, {}, "which does not exist"),
        ({}, {"num_hidden_layers": 5}, "has 5 layers; .* at least 6"),
        ({"draft_vocab_size": 101}, {}, "is 101; the target has 100 tokens"),
        ({"seq_length": 97}, {}, "is 97; the target reads at most 96"),
    ],
)
def test_arguments_that_speculators_cannot_use_are_refused(
    plan: Eagle3Plan, changes: dict[str, Any], target: dict[str, Any], message: str
) -> None:
    check_plan(plan, config())
    with pytest.raises(DraftError, match=message):
        check_plan(replace(plan, **changes), config(**target))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_gpus": (1,)}, "GPU 1 is in both"),
        ({"train_gpus": ()}, "at least one GPU each"),
        ({"vllm_gpus": (-1,)}, "numbered from 0"),
    ],
)
def test_gpus_that_cannot_be_used_are_refused(
    plan: Eagle3Plan, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(plan, **changes)


def test_a_machine_without_the_gpus_is_refused_with_the_reason(plan: Eagle3Plan) -> None:
    check_gpus(plan, 3)
    with pytest.raises(DraftError, match="trained on GPUs, and torch finds none"):
        check_gpus(plan, 0)
    with pytest.raises(DraftError, match="GPU 2 is asked for, and this machine has 2"):
        check_gpus(plan, 2)


def test_lists_of_gpus() -> None:
    assert parse_gpus("0, 3") == (0, 3)
    for text in ("", "0,", "a"):
        with pytest.raises(ValueError, match="not a list of GPUs"):
            parse_gpus(text)


def test_the_command_checks_and_prints_without_a_gpu_and_refuses_to_train(
    pair: TinyPair, plan: Eagle3Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    target = write_model(tmp_path / "deep", seed=1, num_layers=6)

    def invoke(*more: str) -> Result:
        words = [
            *("draft", "train-eagle3", str(target), "--prompts", str(pair.prompts)),
            *("--out", str(plan.out), "--speculators", str(plan.checkout)),
            *("--speculators-python", sys.executable, "--seq-length", "90", *more),
        ]
        return CliRunner().invoke(main, words)

    printed = invoke("--dry-run")
    assert printed.exit_code == 0, printed.output
    assert "prepare_data.py" in printed.output
    assert "--speculator-type eagle3" in printed.output
    refused = invoke()
    assert (refused.exit_code, "torch finds none on this machine" in refused.output) == (1, True)
    wrong = invoke("--vllm-gpus", "1")
    assert (wrong.exit_code, "GPU 1 is in both" in wrong.output) == (2, True)
    assert not plan.out.exists()
