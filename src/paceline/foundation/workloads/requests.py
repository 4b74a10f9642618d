"""OpenAI-compatible request bodies from prompts and sampling settings."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.foundation.workloads.prompts import Prompt

_SEED_STRIDE = 1_000_000
"""Between the seeds of two turns of a session; chosen above the number of requests of a run."""


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
    id_prefix: str = ""
    """Begins the request ids (header x-request-id), by which a server's log finds a request.
    Without it no id is sent."""
    allows_ignore_eos: bool = True
    """Whether the server takes the field; without it an answer may end before its length."""


@dataclass(frozen=True, slots=True)
class NextTurn:
    """The later turns of a session, which need the answers before them."""

    prompt: Prompt
    """Its messages are those of the request before; its turns are the later ones."""
    sampling: SamplingSettings
    index: int
    number: int
    """Of the next turn: 1 for the first that follows."""

    def due_s(self, ended_s: float, session_due_s: float) -> float:
        """When the turn is due, if the answer before ended at `ended_s` and the session's first
        request was due at `session_due_s`."""
        turn = self.prompt.turns[0]
        if turn.after_s is not None:
            return max(ended_s, session_due_s + turn.after_s)
        return ended_s + turn.think_s

    def request(self, answer: str) -> RequestSpec:
        """The next request: all messages so far, the answer, and the next message of the user, or
        what was recorded."""
        turn, *later = self.prompt.turns
        if turn.recorded is not None:
            recorded = dataclasses.replace(
                turn.recorded, task=self.prompt.task, turns=tuple(later), due_s=None
            )
            return build_spec(recorded, self.sampling, self.index, self.number)
        assert self.prompt.messages is not None
        grown = dataclasses.replace(
            self.prompt,
            messages=(
                *self.prompt.messages,
                {"role": "assistant", "content": answer},
                {"role": "user", "content": turn.content},
            ),
            max_tokens=turn.max_tokens or self.prompt.max_tokens,
            turns=tuple(later),
        )
        return build_spec(grown, self.sampling, self.index, self.number)


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request, ready to be sent: nothing is left to compute at dispatch."""

    index: int
    """Of the session; a prompt without turns is a session of one request."""
    task: str
    path: str
    """Relative to the server's address: /v1/chat/completions or /v1/completions."""
    body: bytes
    turn: int = 0
    request_id: str | None = None
    due_s: float | None = None
    """When a recorded trace sends it; None without a schedule."""
    next_turn: NextTurn | None = None
    asked_input_tokens: int | None = None
    """For how many tokens its text was made; None for any other text."""
    asked_output_tokens: int | None = None
    """Exactly how many tokens the answer must have; None where it may end by itself."""

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ValueError(f"path is {self.path!r}; it must begin with a slash")


def build_specs(prompts: Sequence[Prompt], sampling: SamplingSettings) -> Iterator[RequestSpec]:
    """An endless sequence of requests that repeats the prompts in order. Empty for no prompts."""
    for index, prompt in enumerate(itertools.cycle(prompts)):
        yield build_spec(prompt, sampling, index)


def build_spec(
    prompt: Prompt, sampling: SamplingSettings, index: int, turn: int = 0
) -> RequestSpec:
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
        body["seed"] = sampling.seed + index + turn * _SEED_STRIDE
    max_tokens = sampling.max_tokens if sampling.max_tokens is not None else prompt.max_tokens
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    ignores_eos = prompt.ignore_eos and sampling.allows_ignore_eos
    if ignores_eos:
        body["ignore_eos"] = True
    if prompt.messages is not None:
        path = "/v1/chat/completions"
        body["messages"] = prompt.messages
    else:
        path = "/v1/completions"
        body["prompt"] = prompt.text
    body.update(prompt.fields)
    body.update(sampling.extra_body)
    return RequestSpec(
        index=index,
        task=prompt.task,
        path=path,
        body=json.dumps(body).encode(),
        turn=turn,
        request_id=f"{sampling.id_prefix}{index}-{turn}" if sampling.id_prefix else None,
        due_s=prompt.due_s,
        next_turn=NextTurn(prompt, sampling, index, turn + 1) if prompt.turns else None,
        asked_input_tokens=prompt.input_tokens,
        asked_output_tokens=max_tokens if ignores_eos else None,
    )
