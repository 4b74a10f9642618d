"""A model with random weights that quantizes in a moment: two layers of 64 channels."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from demo_recipe.export import export
from demo_recipe.model import Qwen2, Shape
from tokenizers import Tokenizer

from paceline import demo

TINY = Shape(hidden_size=64, num_layers=2, num_kv_heads=1, intermediate_size=96)
PROMPTS = ("Name a colour of the rainbow.", "What is the capital of France?", "Write a short poem.")


def make_tiny(folder: Path, seed: int = 1) -> Path:
    """Write the model with the tokenizer and template of the bundled target."""
    torch.manual_seed(seed)
    model = Qwen2(TINY)
    tokenizer = Tokenizer.from_file(str(demo.target_path() / "tokenizer.json"))
    export(model, tokenizer, folder)
    return folder


def write_prompts(file: Path, num: int = 6) -> Path:
    """Write `num` chat prompts."""
    lines = [
        {"messages": [{"role": "user", "content": f"{number}: {PROMPTS[number % len(PROMPTS)]}"}]}
        for number in range(num)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file
