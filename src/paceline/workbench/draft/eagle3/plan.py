"""The settings of an EAGLE-3 training, and the checks that need no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.foundation.models.values import DraftError

SCRIPTS = ("prepare_data.py", "launch_vllm.py", "train.py")
"""In the folder scripts/ of a checkout of github.com/vllm-project/speculators; the package on PyPI
lacks them. The rows that `render_rows` writes are read by versions after 0.7."""
_MIN_LAYERS = 6
"""speculators takes hidden states after layer 2, the middle layer and the third from the end."""


@dataclass(frozen=True, slots=True)
class Eagle3Plan:
    """How to train one head."""

    target: Path
    out: Path
    checkout: Path
    """Of speculators."""
    speculators_python: Path
    """Interpreter of the environment in which speculators is installed: its pins differ from those
    of vLLM."""
    vllm_python: Path
    vllm_gpus: tuple[int, ...]
    """GPUs on which vLLM computes the target's hidden states."""
    train_gpus: tuple[int, ...]
    draft_vocab_size: int | None
    """The head proposes that many tokens, the most frequent ones; None for all."""
    epochs: int
    learning_rate: float
    seq_length: int
    """Longest text, prompt and answer together."""
    port: int
    seed: int

    def __post_init__(self) -> None:
        if not self.vllm_gpus or not self.train_gpus:
            raise ValueError("vllm_gpus and train_gpus need at least one GPU each")
        if min(*self.vllm_gpus, *self.train_gpus) < 0:
            raise ValueError("GPUs are numbered from 0")
        shared = sorted(set(self.vllm_gpus) & set(self.train_gpus))
        if shared:
            raise ValueError(
                f"GPU {shared[0]} is in both vllm_gpus and train_gpus; vLLM takes most of a GPU's "
                "memory, so the training needs another one"
            )


def check_plan(plan: Eagle3Plan, target_config: Any) -> None:
    """Raise DraftError unless speculators can train this head for this target."""
    missing = [name for name in SCRIPTS if not (plan.checkout / "scripts" / name).is_file()]
    if missing:
        raise DraftError(
            f"{plan.checkout} has no scripts/{missing[0]}; give a checkout of "
            "github.com/vllm-project/speculators with --speculators (the package on PyPI has no "
            "scripts)"
        )
    if not plan.speculators_python.is_file():
        raise DraftError(
            f"--speculators-python is {plan.speculators_python}, which does not exist; give the "
            "interpreter of the environment in which speculators is installed"
        )
    text = target_config.get_text_config()
    if text.num_hidden_layers < _MIN_LAYERS:
        raise DraftError(
            f"the target has {text.num_hidden_layers} layers; an EAGLE-3 head reads the hidden "
            f"states of three different ones and needs at least {_MIN_LAYERS}"
        )
    if plan.draft_vocab_size is not None and plan.draft_vocab_size > text.vocab_size:
        raise DraftError(
            f"--draft-vocab-size is {plan.draft_vocab_size:,}; the target has "
            f"{text.vocab_size:,} tokens"
        )
    longest = getattr(text, "max_position_embeddings", None)
    if longest is not None and plan.seq_length > longest:
        raise DraftError(
            f"--seq-length is {plan.seq_length:,}; the target reads at most {longest:,} tokens"
        )


def check_gpus(plan: Eagle3Plan, num_gpus: int) -> None:
    """Raise DraftError unless the machine has the GPUs of the plan."""
    if num_gpus == 0:
        raise DraftError(
            "EAGLE-3 heads are trained on GPUs, and torch finds none on this machine. Run the "
            "command on a machine with GPUs; --dry-run prints what it would execute. On a CPU, "
            "paceline draft train trains a draft model"
        )
    absent = [gpu for gpu in (*plan.vllm_gpus, *plan.train_gpus) if gpu >= num_gpus]
    if absent:
        raise DraftError(
            f"GPU {absent[0]} is asked for, and this machine has {num_gpus} (numbered from 0); set "
            "--vllm-gpus and --train-gpus"
        )


def parse_gpus(text: str) -> tuple[int, ...]:
    """The numbers of a list such as "0,1"; ValueError for anything else."""
    numbers: Sequence[str] = text.split(",")
    if not all(number.strip().isdigit() for number in numbers):
        raise ValueError(f"{text!r} is not a list of GPUs such as 0,1")
    return tuple(int(number) for number in numbers)
