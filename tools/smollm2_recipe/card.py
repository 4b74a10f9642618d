"""Render the model card of the head for SmolLM2 as Markdown.

    PYTHONPATH=tools python -m smollm2_recipe.card EVALUATION.json

EVALUATION.json is what `paceline draft eval --json` wrote on held-out prompts. Prints the card.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paceline.foundation.named_models import smollm2


def render_card(evaluation: Mapping[str, Any], result: str) -> str:
    """The card. Acceptance is from `evaluation`, the content of the file `result`."""
    config = json.loads((smollm2.head_path() / "config.json").read_text(encoding="utf-8"))
    num_bytes = (smollm2.head_path() / "model.safetensors").stat().st_size
    num_prompts = evaluation["prompts"]["num_prompts"]
    layers = _listed(config["eagle_aux_hidden_state_layer_ids"])
    return f"""---
license: apache-2.0
language: [en]
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
---
# A draft head for SmolLM2-135M-Instruct

An EAGLE-3 head (arXiv 2503.01840) that drafts for SmolLM2-135M-Instruct in vLLM:
`paceline serve smollm2` uses it.

| | |
|---|---|
| size | {num_bytes / 1e6:.1f} MB: one layer of width {config["hidden_size"]}, bfloat16 |
| tokens that it can draft | {config["draft_vocab_size"]:,} of {config["vocab_size"]:,} |
| reads | the target's hidden states after {layers} layers |
| licence | Apache-2.0, as the target's |

**Data.** 2,994 prompts, four in five of them for training: openings and second turns of chats that
the target itself wrote (Magpie, arXiv 2406.08464), and tasks on the documentation, the metadata and
the docstrings of installed packages; and the target's own answers to them, greedily and at
temperature 0.7. They are in the repository, in `benchmarks/drafters/smollm2`, with the command of
the training.

**Held out.** One conversation in five, by a hash of its first messages. The figures below are
from {num_prompts} of those prompts, by `paceline draft eval --held-out`, which counts what vLLM
would: `{result}`. Drafts have
{evaluation["max_draft_length"]} tokens. Brackets are 95 % intervals over conversations.

| sampling | kind of text | first draft accepted | tokens per step |
|---|---|---|---|
{chr(10).join(_rows(evaluation))}

The prompts that a model writes resemble each other, also where none is the same as another. Those
that people write are harder: of the chats in `benchmarks/headline/prompts.jsonl`, the governor had
0.47 of the first drafts accepted, and 1.78 tokens per step (greedy, observed).
"""


def _rows(evaluation: Mapping[str, Any]) -> Iterator[str]:
    kinds = {"all": evaluation["acceptance"], **evaluation["by_category"]}
    for kind, by_sampling in kinds.items():
        for figures in by_sampling:
            temperature = figures["sampling"]["temperature"]
            sampling = f"temperature {temperature:g}" if temperature else "greedy"
            first = _estimate(figures["accepted_per_position_fraction"][0])
            yield f"| {sampling} | {kind} | {first} | {_estimate(figures['acceptance_length'])} |"


def _estimate(found: Mapping[str, float]) -> str:
    return f"{found['value']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def _listed(numbers: list[int]) -> str:
    *most, last = numbers
    return f"{', '.join(map(str, most))} and {last}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("evaluation", type=Path)
    given = parser.parse_args().evaluation
    print(render_card(json.loads(given.read_text(encoding="utf-8")), str(given)), end="")
