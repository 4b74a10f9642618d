"""OpenAI-compatible request bodies from prompts and sampling settings."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.workloads.prompts import Prompt


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request, ready to be sent: nothing is left to compute at dispatch."""

    index: int
    task: str
    path: str
    """Relative to the server's address: /v1/chat/completions or /v1/completions."""
    body: bytes

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ValueError(f"path is {self.path!r}; it must begin with a slash")


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """The settings that all requests of a run share."""

    model: str
    temperature: float
    top_p: float | None
    max_tokens: int | None
    """Overrides the prompt's own limit."""
    seed: int
    extra_body: Mapping[str, Any]


def build_specs(prompts: Sequence[Prompt], sampling: SamplingSettings) -> Iterator[RequestSpec]:
    """An endless sequence of requests that repeats the prompts in order. Empty for no prompts."""
    for index, prompt in enumerate(itertools.cycle(prompts)):
        yield build_spec(prompt, sampling, index)


def build_spec(prompt: Prompt, sampling: SamplingSettings, index: int) -> RequestSpec:
    """One streamed request that asks for usage; a sampled one carries the seed plus its index."""
    body: dict[str, Any] = {
        "model": sampling.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": sampling.temperature,
    }
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.temperature > 0:
        body["seed"] = sampling.seed + index
    max_tokens = sampling.max_tokens if sampling.max_tokens is not None else prompt.max_tokens
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    if prompt.messages is not None:
        path = "/v1/chat/completions"
        body["messages"] = prompt.messages
    else:
        path = "/v1/completions"
        body["prompt"] = prompt.text
    body.update(sampling.extra_body)
    return RequestSpec(index, prompt.task, path, json.dumps(body).encode())
