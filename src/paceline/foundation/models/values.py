"""Values that every room of the draft trainer uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


class DraftError(Exception):
    """A draft cannot be trained or measured as asked. The message says why and what is allowed."""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM stopped the work; everything finished before is on disk."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target samples its answers; temperature 0 is greedy."""

    temperature: float
    top_k: int = 0
    """0 keeps all tokens."""
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature is {self.temperature}; it must be at least 0")
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}; it must be at least 0")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; it must be above 0 and at most 1")

    @property
    def is_greedy(self) -> bool:
        """Whether the target takes its most probable token."""
        return self.temperature == 0

    @property
    def label(self) -> str:
        """For reports: `greedy`, or the temperature with what restricts the tokens."""
        if self.is_greedy:
            return "greedy"
        parts = [f"temperature {self.temperature:g}"]
        if self.top_k:
            parts.append(f"top-k {self.top_k}")
        if self.top_p < 1:
            parts.append(f"top-p {self.top_p:g}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt as the target reads it."""

    key: str
    """Digest of the text; equal for equal prompts."""
    conversation: str
    """Digest of how the conversation begins; equal for all requests of one conversation."""
    token_ids: tuple[int, ...]
    """With the chat template applied; never empty."""
    max_tokens: int
    """Longest answer."""
    category: str = ""
    """As the file of prompts names it."""

    def answered(self, sampling: Sampling, token_ids: Sequence[int], num_tokens: int) -> Answer:
        """The answer to it, of which `token_ids` has `num_tokens` and what follows its end."""
        return Answer(
            key=self.key,
            conversation=self.conversation,
            sampling=sampling,
            prompt_ids=self.token_ids,
            token_ids=tuple(token_ids),
            num_tokens=num_tokens,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The target's own answer to one prompt, and what it would have written after its end."""

    key: str
    """Of the prompt."""
    conversation: str
    """Of the prompt."""
    sampling: Sampling
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    """The answer and its continuation. A draft that begins before the end of an answer may reach
    past it, and vLLM counts these tokens as well."""
    num_tokens: int
    """Of the answer, with the token that ended it."""

    def __post_init__(self) -> None:
        if not 0 < self.num_tokens <= len(self.token_ids):
            raise ValueError(
                f"num_tokens is {self.num_tokens}; it must be 1 to {len(self.token_ids)}, the "
                "number of tokens"
            )
