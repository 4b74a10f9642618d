"""The values of an audit: sampling cases, requests, answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Token: TypeAlias = int | str
"""A token id; its text where the server shows no ids."""
Logprobs: TypeAlias = Mapping[Token, float]
"""Natural log-probabilities of the best tokens at one position."""


def is_ambiguous(token: Token) -> bool:
    """Whether several tokens are shown as this text: those that end inside a character are."""
    return isinstance(token, str) and "\ufffd" in token


class AuditError(Exception):
    """The audit cannot take place. The message says why."""


@dataclass(frozen=True, slots=True)
class SamplingCase:
    """The sampling parameters of a request. All are sent, so that no default of the server applies.

    Tokens outside `top_k` (0: all are kept) and `top_p` have probability 0.
    """

    name: str
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[Token, float], ...] = ()

    @property
    def penalizes(self) -> bool:
        return bool(self.presence_penalty or self.frequency_penalty)

    @property
    def filters(self) -> bool:
        return bool(self.top_k) or self.top_p < 1.0

    @property
    def num_parameters(self) -> int:
        """How many parameters differ from plain sampling at temperature 1."""
        changed = (self.temperature != 1.0, self.top_k, self.top_p < 1.0, self.presence_penalty)
        return sum(map(bool, (*changed, self.frequency_penalty, self.logit_bias)))

    def fields(self) -> dict[str, Any]:
        """The parameters as fields of a request."""
        fields: dict[str, Any] = {"temperature": self.temperature, "top_p": self.top_p}
        if self.top_k:
            fields["top_k"] = self.top_k
        for name in ("presence_penalty", "frequency_penalty"):
            if value := getattr(self, name):
                fields[name] = value
        if self.logit_bias:
            fields["logit_bias"] = {str(token): bias for token, bias in self.logit_bias}
        return fields


GREEDY = SamplingCase("greedy", temperature=0.0)


@dataclass(frozen=True, slots=True)
class Request:
    """One request for completions of one prompt, or of several that are lists of token ids."""

    prompt: str | tuple[int, ...] | tuple[tuple[int, ...], ...]
    case: SamplingCase
    max_tokens: int
    n: int = 1
    seed: int | None = None
    num_logprobs: int | None = None
    stop: str | None = None
    drafts: bool = True
    """False: ask the server to serve it without draft tokens."""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice of a completion."""

    tokens: tuple[Token, ...]
    """Empty where the server shows neither token ids nor log-probabilities."""
    text: str
    finish_reason: str | None
    logprobs: tuple[Logprobs, ...] = ()
    """Per token, if requested."""
    prompt_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """A sampled answer with its prompt and parameters."""

    prompt: int
    """Number of the prompt."""
    case: SamplingCase
    tokens: Sequence[Token]
