"""The prompts of the recorded texts, by kind, as token ids."""

from __future__ import annotations

import json
import random
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline import demo

NUM_TEXTS = 64
_PROMPT_TOKENS = 64
"""Of code and prose: the end of a longer text."""
_LEAST_CODE_TOKENS = 16
_PROSE_CHARS = 700
_VOCABULARY = range(3, 4096)
"""The bundled tokenizer's tokens that stand for text."""

Tokens = list[int]


@dataclass(frozen=True, slots=True)
class Prompts:
    """What the texts of one kind begin with, and how long they become."""

    tokens: list[Tokens]
    output_tokens: int
    ends_at_eos: bool
    """Whether a text ends with its answer; continued code and prose have no end."""


def build_prompts(tokenizer: Any, num_texts: int = NUM_TEXTS) -> dict[str, Prompts]:
    """Up to `num_texts` prompts of each kind of `recordings.KINDS`.

    All but prose are determined by the package. Prose is cut from the descriptions of the installed
    distributions, so it is the same only in an equal environment.
    """
    heldout = json.loads(demo.heldout_path().read_text())
    source = random.Random(1)

    def chats(*tasks: str, below_tokens: int) -> list[Tokens]:
        by_task = [[entry for entry in heldout if entry["task"] == task] for task in tasks]
        in_turn = (entry for entries in zip(*by_task, strict=False) for entry in entries)
        found = [_chat_tokens(tokenizer, entry["messages"]) for entry in in_turn]
        return [tokens for tokens in found if len(tokens) < below_tokens][:num_texts]

    def encode(text: str) -> Tokens:
        tokens: Tokens = tokenizer(text).input_ids
        return tokens[-_PROMPT_TOKENS:]

    code = [encode(entry["prompt"]) for entry in heldout if entry["task"] == "code"]
    code = [tokens for tokens in code if len(tokens) >= _LEAST_CODE_TOKENS]
    prose = _prose(encode, source)
    random_tokens = [
        [source.choice(_VOCABULARY) for _ in range(_PROMPT_TOKENS)] for _ in range(NUM_TEXTS)
    ]
    return {
        "predictable": Prompts(chats("rename", "json", below_tokens=200), 200, True),
        "code": Prompts(code[:num_texts], 110, False),
        "docstring": Prompts(chats("docstring", below_tokens=260), 96, True),
        "code_at_0.8": Prompts(code[:num_texts], 110, False),
        "code_at_1": Prompts(code[-num_texts:], 110, False),
        "prose_at_1": Prompts(prose[:num_texts], 110, False),
        "random_at_1": Prompts(random_tokens[:num_texts], 110, False),
    }


def _chat_tokens(tokenizer: Any, messages: list[dict[str, str]]) -> Tokens:
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    tokens: Tokens = tokenizer(text, add_special_tokens=False).input_ids
    return tokens


def _prose(encode: Callable[[str], Tokens], source: random.Random) -> list[Tokens]:
    packages = Path(sysconfig.get_paths()["purelib"])
    found = []
    for path in sorted(packages.glob("*.dist-info/METADATA")):
        _, _, description = path.read_text(errors="ignore").partition("\n\n")
        if len(description) > 1500:
            start = source.randrange(300, len(description) - 900)
            found.append(encode(description[start : start + _PROSE_CHARS]))
    source.shuffle(found)
    return found
