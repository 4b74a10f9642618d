"""Two engines with the bundled pair: their configuration, prompts, and how answers are judged."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Tokenizer

from chaos.real_engines.answers.answer_checks import AnswerChecks
from paceline.demo import heldout_path, target_path
from paceline.workbench.audit.statistics.greedy import NEAR_TIE_NATS as NEAR_TIES

MODEL = "paceline-demo"
CONFIG: dict[str, Any] = {
    "engine": {
        "replicas": 2,
        "max_restart_delay_s": 2.0,  # else a minute passes between faults that follow one another
        "vllm_args": ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
    },
    "server": {"granted_fields": ["ignore_eos", "prompt_logprobs"]},
}
NEAR_TIE_NATS = NEAR_TIES["bfloat16"]


def prompts(num_prompts: int) -> list[str]:
    """Held-out questions with the longest answers."""
    entries = [entry for entry in json.loads(heldout_path().read_text()) if "messages" in entry]
    entries.sort(key=lambda entry: len(entry["reference"]), reverse=True)
    return [entry["messages"][0]["content"] for entry in entries[:num_prompts]]


def bundled_checks(url: str, model: str = MODEL) -> AnswerChecks:
    """The checks of answers that the bundled target gave, at a gateway that serves it as `model`.

    The gateway must grant the fields that `CONFIG` grants.
    """
    generation = json.loads((target_path() / "generation_config.json").read_text())
    end_ids = generation["eos_token_id"]
    return AnswerChecks(url, model, end_ids, NEAR_TIE_NATS, bundled_tokenizer())


def bundled_tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(target_path() / "tokenizer.json"))
