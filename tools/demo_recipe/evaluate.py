"""Measure the figures of the model card on held-out files.

They are: bits per byte by teacher forcing; the fraction of completions that Python's parser
accepts; the fractions of renames and JSON answers that are exactly right; and, with vLLM
speculating as in service, the acceptance at each draft position, per task, greedy and at
temperature 1.
"""

from __future__ import annotations

import ast
import difflib
import json
import math
import os
import statistics
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from demo_recipe import corpus
from demo_recipe.dataset import ROW_TOKENS
from demo_recipe.model import Qwen2

DRAFT_LENGTH = 5
NUM_QUESTIONS = 50
"""Questions per task; with some 100 tokens each, acceptance is known to about two points."""


def bits_per_byte(model: Qwen2, tokenizer: Tokenizer) -> float:
    """Teacher-forced code length of the held-out files in bits per UTF-8 byte.

    Files are read in rows of 1,024 tokens, each without the context before it.
    """
    nats, num_bytes = 0.0, 0
    model.eval()
    with torch.no_grad():
        for file in corpus.read_standard_library():
            if not corpus.is_held_out(file.name):
                continue
            ids = [0, *tokenizer.encode(file.text, add_special_tokens=False).ids]
            num_bytes += len(file.text.encode())
            for start in range(0, len(ids) - 1, ROW_TOKENS):
                row = torch.tensor(ids[start : start + ROW_TOKENS + 1]).unsqueeze(0)
                logits = model(row[:, :-1]).float()[0]
                nats += F.cross_entropy(logits, row[0, 1:], reduction="sum").item()
    return nats / math.log(2) / num_bytes


def parses(text: str) -> bool:
    """Whether Python's parser accepts the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            return False
    return True


def is_same_json(text: str, reference: str) -> bool:
    """Whether the text is JSON with the same value as the reference."""
    try:
        return bool(json.loads(text) == json.loads(reference))
    except json.JSONDecodeError:
        return False


def right_lines(text: str, reference: str) -> float:
    """Fraction of the reference's lines that the text contains, in the same order."""
    lines = reference.splitlines()
    matcher = difflib.SequenceMatcher(None, text.splitlines(), lines, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks()) / len(lines)


def score_answers(answers: Mapping[str, list[tuple[str, str]]]) -> dict[str, float]:
    """Fractions in [0, 1] from the (answer, reference) pairs of each task."""

    def fraction(hits: Iterable[bool]) -> float:
        found = list(hits)
        return sum(found) / len(found)

    return {
        "complete_parses": fraction(parses(a) for a, _ in answers["complete"]),
        "rename_exact": fraction(a.strip() == r.strip() for a, r in answers["rename"]),
        "rename_lines": statistics.fmean(right_lines(a, r) for a, r in answers["rename"]),
        "json_exact": fraction(is_same_json(a, r) for a, r in answers["json"]),
    }


def measure_with_vllm(target: Path, draft: Path, questions: list[dict[str, Any]]) -> dict[str, Any]:
    """Score the answers and count the acceptance of vLLM speculating with a fixed length."""
    from vllm import LLM, SamplingParams

    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    engine = LLM(
        str(target),
        enforce_eager=True,
        max_model_len=2048,
        max_num_seqs=16,
        kv_cache_memory_bytes=512 * 1024**2,
        disable_log_stats=False,
        speculative_config={
            "method": "draft_model",
            "model": str(draft),
            "num_speculative_tokens": DRAFT_LENGTH,
            "draft_sample_method": "probabilistic",
        },
    )
    before = _counters(engine)
    acceptance: dict[str, dict[str, Any]] = {}
    answers: dict[str, list[tuple[str, str]]] = {}
    for temperature, label in ((0.0, "greedy"), (1.0, "temperature_1")):
        for task in dict.fromkeys(q["task"] for q in questions):
            chosen = [q for q in questions if q["task"] == task][:NUM_QUESTIONS]
            params = [
                SamplingParams(temperature=temperature, max_tokens=q["max_tokens"], seed=index)
                for index, q in enumerate(chosen)
            ]
            if "messages" in chosen[0]:
                outputs = engine.chat([q["messages"] for q in chosen], params, use_tqdm=False)
            else:
                outputs = engine.generate([q["prompt"] for q in chosen], params, use_tqdm=False)
            after = _counters(engine)
            acceptance.setdefault(label, {})[task] = _acceptance(before, after)
            before = after
            if temperature == 0.0:
                answers[task] = [
                    (o.outputs[0].text, q["reference"])
                    for o, q in zip(outputs, chosen, strict=True)
                ]
    return {"scores": score_answers(answers), "acceptance": acceptance}


def _counters(engine: Any) -> dict[str, Any]:
    """vLLM's speculation counters: drafts, and accepted tokens per position."""
    found: dict[str, Any] = {"drafts": 0, "accepted": [0] * DRAFT_LENGTH}
    for metric in engine.get_metrics():
        if metric.name == "vllm:spec_decode_num_drafts":
            found["drafts"] = metric.value
        elif metric.name == "vllm:spec_decode_num_accepted_tokens_per_pos":
            found["accepted"] = list(metric.values)
    return found


def _acceptance(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Conditional acceptance per position, and mean tokens per step with the bonus token."""
    drafts = after["drafts"] - before["drafts"]
    accepted = [a - b for a, b in zip(after["accepted"], before["accepted"], strict=True)]
    reached = [drafts, *accepted[:-1]]
    return {
        "per_position": [
            round(a / r, 3) if r else None for a, r in zip(accepted, reached, strict=True)
        ],
        "length": round(1 + sum(accepted) / drafts, 2) if drafts else None,
        "drafts": drafts,
    }
