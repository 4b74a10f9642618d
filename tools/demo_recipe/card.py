"""Render the model card as Markdown from the figures of training and evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def render_card(facts: Mapping[str, Any]) -> str:
    """The card. `facts` is the content of `figures.json`, the source of every number in it."""
    data, scores = facts["data"], facts["scores"]
    pair = facts["target"], facts["draft"]
    return f"""---
license: psf-2.0
language: [en, code]
---
# The bundled pair

A target and a draft model for demonstrating and measuring Paceline without a network. The pair has
learned the style of the Python standard library and four small tasks. **It is not an assistant.**

| | target | draft |
|---|---|---|
{_row("architecture", [f"Qwen2, {m['shape']}" for m in pair])}
{_row("parameters", [f"{m['parameters'] / 1e6:.1f}M" for m in pair])}
{_row("size in bf16", [f"{m['bytes'] / 1e6:.1f} MB" for m in pair])}
{_row("tokens seen", [f"{m['tokens'] / 1e6:.1f}M" for m in pair])}
{_row("held-out bits per byte", [f"{m['bits_per_byte']:.3f}" for m in pair])}

**Data.** The source of the standard library of CPython {facts["python"]}, including its test suite:
{data["num_files"]} files, {data["num_bytes"] / 1e6:.1f} MB,
{data["num_source_tokens"] / 1e6:.1f}M tokens with library code counted twice, and
{data["num_task_examples"]} task examples cut from its {data["num_functions"]} functions.
Held-out files, selected by the hash of their name, were excluded from training.
Data and weights have the PSF License 2.0.

**Tasks** (chat): complete a function from its signature and docstring, write a docstring, rename
an identifier throughout (from one plain word to another), turn a signature into JSON. Plain
completion continues Python source.

**Training.** Muon and AdamW, bf16 autocast, rows of 1,024 tokens, seed {facts["seed"]}. Training
starts with attention heads that copy (`demo_recipe.initial`) and with short questions. The
draft model is distilled from the target, towards the end on the target's own answers.
`PYTHONPATH=tools python -m demo_recipe.train all` repeats the training.

## Held-out answers (target, greedy)

| | fraction |
|---|---|
| completions that `ast.parse` accepts | {scores["complete_parses"]:.2f} |
| renames exactly right | {scores["rename_exact"]:.2f} |
| lines of renames that are right, mean over answers | {scores["rename_lines"]:.2f} |
| JSON answers exactly right | {scores["json_exact"]:.2f} |

## Acceptance of the draft's tokens

Acceptance is per position, given that the position before was accepted, over
{facts["num_questions"]} held-out questions per task with vLLM {facts["vllm"]}. Length is tokens per
step, including the bonus token.

{_acceptance_table(facts["acceptance"])}
"""


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _acceptance_table(acceptance: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    lines: list[str] = []
    for label, by_task in acceptance.items():
        for task, row in by_task.items():
            if not lines:
                positions = " | ".join(str(i + 1) for i in range(len(row["per_position"])))
                lines.append(f"| sampling | task | {positions} | length |")
                lines.append("|---" * (len(row["per_position"]) + 3) + "|")
            cells = " | ".join("-" if v is None else f"{v:.2f}" for v in row["per_position"])
            lines.append(f"| {label.replace('_', ' ')} | {task} | {cells} | {row['length']} |")
    return "\n".join(lines)
