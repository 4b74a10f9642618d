"""The tokenizer of the bundled pair: byte-level BPE, 4,096 tokens, ChatML special tokens.

Text is split into words as in Qwen2 before merging.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

VOCABULARY_SIZE = 4096
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
END_OF_TEXT, MESSAGE_START, MESSAGE_END = 0, 1, 2

_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pattern of Qwen2. transformers 5 rebuilds the pre-tokenizer of every `qwen2` model with it,
whatever `tokenizer.json` says, so another pattern would split text differently in service."""

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Train the merges. The same texts in the same order give the same merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def load_tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def encode_message(tokenizer: Tokenizer, role: str, content: str) -> list[int]:
    """One ChatML message as the chat template renders it, including the final line break."""
    head = tokenizer.encode(f"{role}\n", add_special_tokens=False).ids
    body = tokenizer.encode(content, add_special_tokens=False).ids
    tail = tokenizer.encode("\n", add_special_tokens=False).ids
    return [MESSAGE_START, *head, *body, MESSAGE_END, *tail]


def answer_head(tokenizer: Tokenizer) -> list[int]:
    """The tokens before an answer: the chat template's generation prompt."""
    head: list[int] = tokenizer.encode("assistant\n", add_special_tokens=False).ids
    return [MESSAGE_START, *head]
