"""Calibration texts: the user's prompts as the target sees them, through its own chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from paceline.foundation.quantized.errors import WrongUsage
from paceline.foundation.workloads import (
    Prompt,
    WorkloadError,
    digest_of_file,
    load_placed_prompts,
    load_workload,
    shuffle_prompts,
)

BUILT_IN = "mixed"
"""The workload that calibrates where the user gives no file."""
MIN_TOKENS = 8
"""Shorter samples say nothing about the activations within a text."""


class ChatTokenizer(Protocol):
    """A Hugging Face tokenizer, as far as calibration uses it."""

    def apply_chat_template(self, conversation: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        """Return the conversation as text."""
        ...

    def encode(self, text: str, **options: Any) -> list[int]:
        """Return the token ids of a text."""
        ...


@dataclass(frozen=True, slots=True)
class Calibration:
    """The samples, and what the provenance says of them."""

    samples: tuple[tuple[int, ...], ...]
    """Token ids of each sample."""
    origin: str
    """Path of the file, or the name of a built-in workload."""
    sha256: str | None
    """Of the file."""
    num_prompts: int
    """Prompts that the origin has; samples are drawn from them."""
    max_tokens: int
    seed: int

    @property
    def num_tokens(self) -> int:
        """Tokens of all samples."""
        return sum(map(len, self.samples))

    def as_json(self) -> dict[str, Any]:
        """Return what the provenance records: everything but the texts."""
        kept = asdict(self)
        del kept["samples"]
        return kept | {"num_samples": len(self.samples), "num_tokens": self.num_tokens}


def load_calibration(
    file: Path | None, tokenizer: ChatTokenizer, *, max_samples: int, max_tokens: int, seed: int
) -> Calibration:
    """Draw samples by `seed` and tokenize them, each cut at `max_tokens`.

    Raises WrongUsage that names the line of a bad prompt, or the samples that are too short.
    """
    try:
        digest = None if file is None else digest_of_file(file)
        placed = _built_in(seed) if file is None else load_placed_prompts(file)
    except WorkloadError as error:
        raise WrongUsage(f"--calibration: {error}") from None
    prompts = [prompt for _, prompt in placed]
    places = {id(prompt): where for where, prompt in placed}
    chosen = shuffle_prompts(prompts, seed)[:max_samples]
    samples = tuple(
        tuple(tokenize(prompt, tokenizer, places[id(prompt)])[:max_tokens]) for prompt in chosen
    )
    long_enough = tuple(sample for sample in samples if len(sample) >= MIN_TOKENS)
    if not long_enough:
        raise WrongUsage(
            f"--calibration {file or BUILT_IN}: none of {len(samples)} samples has {MIN_TOKENS} "
            "tokens; give prompts like those that the model will serve"
        )
    return Calibration(
        samples=long_enough,
        origin=BUILT_IN if file is None else str(file),
        sha256=digest,
        num_prompts=len(prompts),
        max_tokens=max_tokens,
        seed=seed,
    )


def _built_in(seed: int) -> list[tuple[str, Prompt]]:
    return [(BUILT_IN, prompt) for prompt in load_workload(BUILT_IN).prompts(seed)]


def tokenize(prompt: Prompt, tokenizer: ChatTokenizer, where: str) -> list[int]:
    """Return the token ids of a prompt: a chat through the template, a text as it is.

    A chat that ends with an answer is rendered as it is; any other asks for one. Raises
    WrongUsage that names `where` if the template refuses it.
    """
    if prompt.messages is None:
        return tokenizer.encode(prompt.text or "")
    messages = [dict(message) for message in prompt.messages]
    try:
        text = tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=messages[-1].get("role") != "assistant",
        )
    except Exception as error:
        raise WrongUsage(
            f"--calibration: {where}: the chat template of the model refuses the messages with the "
            f"roles {', '.join(str(message.get('role')) for message in messages)}: {error}"
        ) from error
    return tokenizer.encode(str(text), add_special_tokens=False)
