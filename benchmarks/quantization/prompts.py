"""Calibration file, prompts and reference answers, cut from the bundled held-out questions.

Questions of odd number calibrate, and those of even number measure, so that no format is fitted to
what it is judged by.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from paceline.foundation.quantized.calibration import tokenize
from paceline.foundation.workloads.prompts import Prompt

_MAX_PROMPT_TOKENS = 900
_MAX_ANSWER_TOKENS = 512
Pair = list[list[int]]
"""Token ids of a prompt, and those of its reference answer."""


class _Template:
    """The tokenizer of a model, with its chat template."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        self._own = AutoTokenizer.from_pretrained(str(folder))
        self._fast = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        return self._own.apply_chat_template(conversation, **options)

    def encode(self, text: str, **options: Any) -> list[int]:
        return list(self._fast.encode(text, add_special_tokens=False).ids)


def write_calibration(items: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Write the questions of odd number with their reference answers, as `--calibration` reads."""
    lines = []
    for item in items[1::2]:
        if "messages" in item:
            answer = {"role": "assistant", "content": item["reference"]}
            lines.append({"messages": [*item["messages"], answer]})
        else:
            lines.append({"prompt": f"{item['prompt']}\n{item['reference']}"})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def answer_pairs(items: Sequence[Mapping[str, Any]], folder: Path, num_answers: int) -> list[Pair]:
    """Prompts and reference answers of the questions of even number.

    The tasks take turns, because the file has them one after another. Long prompts lose their
    beginning, and long answers their end.
    """
    template = _Template(folder)
    pairs: list[Pair] = []
    for item in take_turns(items[0::2]):
        is_chat = "messages" in item
        prompt = Prompt(
            task=item["task"],
            messages=tuple(item["messages"]) if is_chat else None,
            text=None if is_chat else item["prompt"] + "\n",
            max_tokens=None,
        )
        answer = template.encode(item["reference"])
        if answer:
            given = tokenize(prompt, template)[-_MAX_PROMPT_TOKENS:]
            pairs.append([given, answer[:_MAX_ANSWER_TOKENS]])
        if len(pairs) == num_answers:
            break
    return pairs


def take_turns(items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The items with their tasks in turn, each task in its own order.

    >>> [one["n"] for one in take_turns([{"task": t, "n": n} for n, t in enumerate("aabb")])]
    [0, 2, 1, 3]
    """
    numbers: dict[str, int] = {}
    places = []
    for item in items:
        place = numbers[item["task"]] = numbers.get(item["task"], -1) + 1
        places.append(place)
    order = sorted(range(len(items)), key=lambda index: places[index])
    return [items[index] for index in order]
