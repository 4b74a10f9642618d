"""Random models of a few thousand weights, with a tokenizer of words, in Hugging Face layout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

NUM_WORDS = 96
SPECIAL = ("<pad>", "<end>", "<user>", "<model>")
END_ID = 1
CHAT_TEMPLATE = (
    "{% for m in messages %}<user> {{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}<model>{% endif %}"
)


def write_model(
    folder: Path,
    *,
    seed: int,
    num_layers: int = 1,
    vocab_size: int = NUM_WORDS + len(SPECIAL),
    words: Sequence[str] = tuple(f"w{number}" for number in range(NUM_WORDS)),
    sharpness: float = 1.0,
) -> Path:
    """Write a Llama of width 32; `sharpness` scales the logits, so that sampling has structure."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=num_layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=96,
        bos_token_id=None,
        eos_token_id=END_ID,
        pad_token_id=0,
        initializer_range=0.3,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight.mul_(sharpness)
    model.save_pretrained(folder)
    write_tokenizer(folder, words)
    return folder


def write_tokenizer(folder: Path, words: Sequence[str]) -> None:
    """A tokenizer with one token per word."""
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<end>",
        pad_token="<pad>",
        unk_token="<pad>",
        chat_template=CHAT_TEMPLATE,
    ).save_pretrained(folder)


def write_prompts(path: Path, count: int, *, max_tokens: int = 8) -> Path:
    """Prompts of two to six words, each different."""
    lines = []
    for number in range(count):
        words = [f"w{(number * step) % NUM_WORDS}" for step in range(1, 2 + number % 5)]
        content = " ".join([f"w{number % NUM_WORDS}", *words, f"w{(number // 7) % NUM_WORDS}"])
        messages = [{"role": "user", "content": content}]
        lines.append(json.dumps({"messages": messages, "max_tokens": max_tokens}))
    path.write_text("\n".join(lines) + "\n")
    return path
