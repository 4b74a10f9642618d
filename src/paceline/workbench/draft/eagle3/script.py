"""The rows that speculators learns from, and the shell script that runs its three steps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from paceline.foundation.models.values import Answer
from paceline.workbench.draft.eagle3.plan import Eagle3Plan


def render_rows(answers: Iterable[Answer]) -> Iterator[str]:
    """One line of JSON per answer: `input_ids`, and a `loss_mask` that is 1 on the answer."""
    for answer in answers:
        written = answer.token_ids[: answer.num_tokens]
        row = {
            "input_ids": [*answer.prompt_ids, *written],
            "loss_mask": [0] * len(answer.prompt_ids) + [1] * len(written),
        }
        yield json.dumps(row, separators=(",", ":")) + "\n"


def render_script(plan: Eagle3Plan, rows: Path) -> str:
    """A bash script: prepare the rows, start vLLM for hidden states, train, stop vLLM."""
    return f"""#!/bin/bash
# Written by `paceline draft train-eagle3`.
set -euo pipefail

{shlex.join(prepare_command(plan, rows))}

CUDA_VISIBLE_DEVICES={_numbers(plan.vllm_gpus)} {shlex.join(serve_command(plan))} &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT
until curl -sf http://127.0.0.1:{plan.port}/health > /dev/null; do
    kill -0 "$server"  # ends the script if vLLM has ended
    sleep 2
done

CUDA_VISIBLE_DEVICES={_numbers(plan.train_gpus)} {shlex.join(train_command(plan))}
"""


def prepare_command(plan: Eagle3Plan, rows: Path) -> list[str]:
    """Turn the rows into the data set of speculators; needs no GPU."""
    return [
        *(str(plan.speculators_python), _script(plan, "prepare_data.py")),
        *("--model", str(plan.target), "--data", str(rows), "--output", _data(plan)),
        *("--seq-length", str(plan.seq_length), "--seed", str(plan.seed)),
    ]


def serve_command(plan: Eagle3Plan) -> list[str]:
    """A vLLM server that returns the target's hidden states."""
    return [
        *(str(plan.vllm_python), _script(plan, "launch_vllm.py"), str(plan.target)),
        *("--hidden-states-path", str(plan.out / "hidden-states")),
        *("--", "--port", str(plan.port), "--data-parallel-size", str(len(plan.vllm_gpus))),
        *("--max-model-len", str(plan.seq_length)),
    ]


def train_command(plan: Eagle3Plan) -> list[str]:
    """Train the head against the server, with hidden states generated on demand."""
    command = [
        *(str(plan.speculators_python), "-m", "torch.distributed.run", "--standalone"),
        *("--nproc_per_node", str(len(plan.train_gpus)), _script(plan, "train.py")),
        *("--verifier-name-or-path", str(plan.target), "--speculator-type", "eagle3"),
        *("--data-path", _data(plan), "--save-path", str(plan.out / "checkpoints")),
        *("--vllm-endpoint", f"http://127.0.0.1:{plan.port}/v1"),
        *("--on-missing", "generate", "--on-generate", "delete"),
        *("--epochs", str(plan.epochs), "--lr", f"{plan.learning_rate:g}"),
        *("--total-seq-len", str(plan.seq_length), "--seed", str(plan.seed), "--save-best"),
    ]
    if plan.draft_vocab_size is not None:
        command += ["--draft-vocab-size", str(plan.draft_vocab_size)]
    return command


def _script(plan: Eagle3Plan, name: str) -> str:
    return str(plan.checkout / "scripts" / name)


def _data(plan: Eagle3Plan) -> str:
    return str(plan.out / "data")


def _numbers(gpus: Iterable[int]) -> str:
    return ",".join(map(str, gpus))
