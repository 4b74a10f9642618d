"""A batch whose drafts end early, and the engine that serves it."""

from __future__ import annotations

import json
from typing import Any

from losslessness.early_stops import FIXED_LENGTH
from losslessness.engine_host import EngineHost

from paceline.demo import draft_path, heldout_path, target_path

STEPS = "losslessness.early_stops"
MAX_TOKENS = 40
MAX_MODEL_LEN = 512
REGEX = r"[a-z]{3,8}(, [a-z]{3,8}){3}\."
CAP = 2


def llm(speculative: dict[str, Any] | None) -> dict[str, Any]:
    """Prompts are computed in chunks beside the answers of other requests."""
    return {
        "model": str(target_path()),
        "dtype": "float32",
        "max_model_len": MAX_MODEL_LEN,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 128,
        "enable_prefix_caching": True,
        "speculative_config": speculative,
    }


def draft_model(**settings: Any) -> dict[str, Any]:
    return {
        "method": "draft_model",
        "model": str(draft_path()),
        "num_speculative_tokens": FIXED_LENGTH,
        **settings,
    }


def requests(
    host: EngineHost, *, prompt_tokens: int = 300
) -> tuple[list[list[int]], list[dict[str, Any]]]:
    """Predictable text, code, the beginning of an earlier prompt, a grammar and a cap.

    Of each prompt the last `prompt_tokens` at most.
    """
    held = json.loads(heldout_path().read_text())
    predictable = [
        "".join(f"{part['role']}: {part['content']}\n" for part in item["messages"])
        for item in held
        if item["task"] in ("rename", "json")
    ][::40][:5]
    code = [item["prompt"] for item in held if item["task"] == "code"][:5]
    prompts = [ids[-prompt_tokens:] for ids in host.tokenize([*predictable, *code])]
    each: list[dict[str, Any]] = [{} for _ in prompts]
    prompts += [prompts[0], prompts[5], prompts[6]]
    each += [
        {},
        {"structured_outputs": {"regex": REGEX}, "ignore_eos": False},
        {"extra_args": {"paceline": {"max_draft_length": CAP}}},
    ]
    return prompts, each


def answers(host: EngineHost, *, prompt_tokens: int = 300, **sampling: Any) -> list[list[int]]:
    prompts, each = requests(host, prompt_tokens=prompt_tokens)
    return generate(host, prompts, each, **sampling)


def generate(
    host: EngineHost, prompts: list[list[int]], each: list[dict[str, Any]], **sampling: Any
) -> list[list[int]]:
    parameters = {"temperature": 0.0, "max_tokens": MAX_TOKENS, "ignore_eos": True, **sampling}
    return [one["token_ids"] for one in host.generate(prompts, each=each, **parameters)]


def set_length(host: EngineHost, length: int) -> None:
    assert host.control(op="set", draft_length=length)["ok"]


def assert_confidences_belong_to_the_drafts(steps: list[dict[str, Any]]) -> None:
    """Each verified token has one, and it is a probability."""
    assert sum(bool(step["confidences"]) for step in steps) > 0.5 * len(steps)
    for step in steps:
        for row, drafted in zip(step["confidences"], step["drafted"], strict=False):
            assert len(row) == drafted
            assert all(0.0 < confidence <= 1.0 for confidence in row)
