"""What is asked of the server? Prompts, their order, and the request bodies made of them.

The built-in prompts come from source files that the bundled pair was not trained on. Order and
sampling seeds follow from one seed, so two servers can be given the same requests.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.bench.values import RequestSpec

TASKS = ("complete", "docstring", "rename", "json", "code")
WORKLOADS: dict[str, tuple[str, ...]] = {
    **{task: (task,) for task in TASKS},
    "mixed": TASKS,
    "predictable": ("rename", "json"),
    "hard": ("code",),
}
DEFAULT_TEMPERATURES = {"hard": 1.0}
"""Workloads that name a temperature; the others are greedy."""


class WorkloadError(Exception):
    """A workload cannot be read; the message says what was found and what is allowed."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One thing to ask: `messages` for the chat route or `text` for plain continuation."""

    task: str
    messages: tuple[Mapping[str, Any], ...] | None
    text: str | None
    max_tokens: int | None

    def __post_init__(self) -> None:
        if (self.messages is None) == (self.text is None):
            raise ValueError("a prompt needs either messages or a prompt text, and not both")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens is {self.max_tokens}; it must be at least 1")


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """What every request of a run has in common."""

    model: str
    temperature: float
    top_p: float | None
    max_tokens: int | None
    """Overrides that of the prompt."""
    seed: int
    extra_body: Mapping[str, Any]


def load_heldout() -> list[Prompt]:
    """The built-in prompts that ship with the bundled pair."""
    from paceline import demo

    path = demo.heldout_path()
    try:
        items = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WorkloadError(
            f"the built-in prompts cannot be read ({error}); give your own with --prompts FILE"
        ) from error
    except ValueError as error:
        raise WorkloadError(f"{path} is not JSON: {error}") from error
    if not isinstance(items, list):
        raise WorkloadError(f"{path} holds {type(items).__name__}; a JSON list is needed")
    return [_parse_prompt(item, f"{path}, entry {n}", "") for n, item in enumerate(items)]


def load_prompt_file(path: Path) -> list[Prompt]:
    """A user's own prompts: one JSON object per line, shaped like the built-in ones."""
    prompts = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                item = json.loads(line)
            except ValueError as error:
                raise WorkloadError(f"{where} is not JSON: {error}") from error
            prompts.append(_parse_prompt(item, where, "prompts"))
    if not prompts:
        raise WorkloadError(f"{path} holds no prompt; one JSON object per line is needed")
    return prompts


def select_workload(prompts: Sequence[Prompt], workload: str, seed: int) -> list[Prompt]:
    """The prompts of a built-in workload in the order of `seed`, its tasks taking turns.

    Taking turns gives every task the same share in any stretch of the run; when one task runs
    out the others go on.
    """
    tasks = WORKLOADS[workload]
    columns = [_shuffled([p for p in prompts if p.task == task], seed) for task in tasks]
    empty = [task for task, column in zip(tasks, columns, strict=True) if not column]
    if empty:
        raise WorkloadError(
            f"workload {workload!r} needs prompts of the task {', '.join(empty)}; there are none"
        )
    rows = itertools.zip_longest(*columns)
    return [prompt for row in rows for prompt in row if prompt is not None]


def shuffle_prompts(prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
    """A user's prompts in the order of `seed`."""
    return _shuffled(prompts, seed)


def build_specs(prompts: Sequence[Prompt], sampling: SamplingSettings) -> Iterator[RequestSpec]:
    """Requests without end, going round the prompts in order. Empty for no prompts."""
    for index, prompt in enumerate(itertools.cycle(prompts)):
        yield build_spec(prompt, sampling, index)


def build_spec(prompt: Prompt, sampling: SamplingSettings, index: int) -> RequestSpec:
    """One streamed request with usage; a sampled one carries a seed of its own."""
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


def _shuffled(prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
    order = list(prompts)
    random.Random(seed).shuffle(order)
    return order


def _parse_prompt(item: object, where: str, default_task: str) -> Prompt:
    if not isinstance(item, dict):
        raise WorkloadError(f"{where} holds {type(item).__name__}; a JSON object is needed")
    messages, text = item.get("messages"), item.get("prompt")
    task, max_tokens = item.get("task", default_task), item.get("max_tokens")
    if messages is not None and not (
        isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages)
    ):
        raise WorkloadError(f"{where}: messages must be a non-empty list of objects")
    if text is not None and not isinstance(text, str):
        raise WorkloadError(f"{where}: prompt is {type(text).__name__}; it must be a string")
    if not isinstance(task, str) or not task:
        raise WorkloadError(f"{where}: task is {task!r}; it must be a non-empty string")
    if max_tokens is not None and (isinstance(max_tokens, bool) or type(max_tokens) is not int):
        raise WorkloadError(f"{where}: max_tokens is {max_tokens!r}; it must be a whole number")
    try:
        return Prompt(task, None if messages is None else tuple(messages), text, max_tokens)
    except ValueError as error:
        raise WorkloadError(f"{where}: {error}") from error
