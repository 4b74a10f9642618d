"""Encode prompts as the engine would, with the tokenizer and chat template of the target."""

from __future__ import annotations

from typing import Any

from benchmarks.governor.interleaved.requests import Encode
from paceline.foundation.workloads import Prompt


def load_encoder(target: str) -> Encode:
    """The encoder of the model in the folder `target`."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(target)

    def encode(prompt: Prompt) -> list[int]:
        text = prompt.text
        if prompt.messages is not None:
            text = tokenizer.apply_chat_template(
                [dict(message) for message in prompt.messages],
                tokenize=False,
                add_generation_prompt=True,
            )
        ids: list[int] = tokenizer.encode(text)
        return ids

    return encode
