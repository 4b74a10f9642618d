"""The cells of the benchmark: a kind of text, sampled or not, and a number of users.

A name is `TEXT[-sampled]-USERS`, such as `json-sampled-16`, or `system-cached` and `system-new`.
`DEFAULT_CELLS` has every text, both ways of sampling and every number of users at least twice;
`--cells` takes any other combination. A slice is a cell in one repeat: all servers answer the
same requests in it, each in its turn. `prompts.jsonl` holds the texts, `schemas.json` the JSON
schemas; neither was used to train a draft.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from benchmarks.headline.http_arm import Load
from paceline.foundation.workloads import Prompt, RequestSpec, SamplingSettings, build_spec

PROMPTS = Path(__file__).with_name("prompts.jsonl")
_SCHEMAS = Path(__file__).with_name("schemas.json")
_LICENCE = Path(__file__).parents[2] / "LICENSE"
_LICENCE_CHARACTERS = 7750
"""1,500 tokens of SmolLM2."""
ANSWER_TOKENS = 48
"""At most. Most chats and programs would be longer, so all servers' answers are equally long."""
_PROBE_TOKENS = 16
"""Of an answer in the cells about the time to the first token."""
_WARM_UP_TOKENS = 8
_TEMPERATURE = 0.7
_SEED_STRIDE = 1000
"""Between the seeds of two slices; above the number of requests of a slice."""
_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""What the model's chat template says where a request has no system prompt."""
_NUM_REQUESTS = {1: 3, 4: 8, 16: 32, 64: 128}
"""Of a slice, by users: two to a dozen seconds of an arm on two cores."""
USERS = tuple(_NUM_REQUESTS)


class Text(StrEnum):
    """What a cell's prompts are."""

    CHAT = "chat"
    EDIT = "edit"
    """Quote, repeat or change a text that the prompt contains."""
    CODE = "code"
    JSON = "json"
    """Extract data; the answer is held to a JSON schema."""
    SYSTEM_CACHED = "system-cached"
    """Chats after one long system prompt, which the server has seen before."""
    SYSTEM_NEW = "system-new"
    """Chats after a system prompt of the same length that no request had before."""

    @property
    def has_long_system_prompt(self) -> bool:
        return self in (Text.SYSTEM_CACHED, Text.SYSTEM_NEW)


@dataclass(frozen=True, slots=True)
class Cell:
    """One text under one load."""

    text: Text
    users: int
    """Each has one request in flight, in a closed loop; fewer are in flight at a slice's end."""
    num_requests: int
    """In a slice; at least `users`."""
    is_sampled: bool = False
    max_tokens: int = ANSWER_TOKENS
    """Of an answer."""

    def __post_init__(self) -> None:
        if self.num_requests < self.users:
            raise ValueError(
                f"cell {self.name!r} has {self.num_requests} requests; it must have at least "
                f"{self.users}, one for each user"
            )

    @property
    def name(self) -> str:
        sampled = "-sampled" if self.is_sampled else ""
        return (
            self.text if self.text.has_long_system_prompt else f"{self.text}{sampled}-{self.users}"
        )


_NAME = re.compile(r"(?P<text>chat|edit|code|json)(?P<sampled>-sampled)?-(?P<users>\d+)")
DEFAULT_CELLS = (
    "chat-1", "chat-4", "chat-16", "chat-64",
    "edit-1", "edit-sampled-4", "edit-16",
    "code-sampled-1", "code-4", "code-sampled-64",
    "json-1", "json-sampled-16",
    "system-cached", "system-new",
)  # fmt: skip
SINGLE, SATURATED = "chat-1", "chat-16"
CACHED, NEW = Text.SYSTEM_CACHED.value, Text.SYSTEM_NEW.value


def is_throughput(name: str) -> bool:
    """Whether the rate of tokens in this cell is the server's own: a closed loop of answers.

    For the cells of earlier results too, which had one of arrivals at a given rate.
    """
    return name not in (CACHED, NEW, "offered")


def parse_cells(names: Sequence[str]) -> tuple[Cell, ...]:
    """The cells of these names, each once; ValueError that says what is allowed."""
    return tuple(_parse_cell(name) for name in dict.fromkeys(names))


def _parse_cell(name: str) -> Cell:
    if name in (CACHED, NEW):
        return Cell(Text(name), 1, 6, max_tokens=_PROBE_TOKENS)
    match = _NAME.fullmatch(name)
    if match is None or int(match["users"]) not in _NUM_REQUESTS:
        raise ValueError(
            f"the cell is {name!r}; it must be TEXT-USERS or TEXT-sampled-USERS with TEXT chat, "
            f"edit, code or json and {', '.join(map(str, USERS))} USERS, or {CACHED} or {NEW}"
        )
    users = int(match["users"])
    return Cell(Text(match["text"]), users, _NUM_REQUESTS[users], bool(match["sampled"]))


def toy(cell: Cell) -> Cell:
    """The cell with the fewest requests that its load allows and short answers: a warm-up."""
    return dataclasses.replace(
        cell, num_requests=max(2, cell.users), max_tokens=min(cell.max_tokens, _WARM_UP_TOKENS)
    )


def slice_load(cell: Cell, cells: Sequence[Cell], repeat: int, model: str, seed: int) -> Load:
    """The requests of this cell in a repeat; `cells` are all cells of the run.

    Every request of
    a run begins with a number of its own, so that no server has its beginning in its prefix cache,
    except in `system-cached`: a request before the slice, with another question, puts the system
    prompt there.
    """
    first = _first_index(cell, cells, repeat)
    seeds = (seed + repeat * _SEED_STRIDE, seed)
    *requests, further = [
        _request(cell, first + place, place, model, *seeds)
        for place in range(cell.num_requests + 1)
    ]
    is_primed = cell.text is Text.SYSTEM_CACHED
    return Load(requests, cell.users, priming=further if is_primed else None)


def _request(
    cell: Cell, index: int, place: int, model: str, sampling_seed: int, seed: int
) -> RequestSpec:
    """Request `index` of the run: `place` of its slice."""
    prompts = _prompts(cell.text, seed)
    prompt, extra_body = prompts[index % len(prompts)]
    assert prompt.messages is not None
    system = {"role": "system", "content": _system_prompt(cell, index)}
    sampling = SamplingSettings(
        model=model,
        temperature=_TEMPERATURE if cell.is_sampled else 0.0,
        top_p=None,
        max_tokens=cell.max_tokens,
        seed=sampling_seed,
        extra_body=extra_body,
    )
    return build_spec(
        dataclasses.replace(prompt, messages=(system, *prompt.messages)), sampling, place
    )


def _first_index(cell: Cell, cells: Sequence[Cell], repeat: int) -> int:
    """Index of the slice's first request in the run: the cells count one after another.

    The priming request of a cell is one more.
    """
    widths = [one.num_requests + 1 for one in cells]
    before = sum(widths[: [one.name for one in cells].index(cell.name)])
    return repeat * sum(widths) + before


@functools.cache
def _prompts(text: Text, seed: int) -> tuple[tuple[Prompt, dict[str, Any]], ...]:
    """The prompts of a text in the order of the seed, with further fields of their requests."""
    task = Text.CHAT if text.has_long_system_prompt else text
    schemas = json.loads(_SCHEMAS.read_text(encoding="utf-8"))
    items = [json.loads(line) for line in PROMPTS.read_text(encoding="utf-8").splitlines()]
    chosen = [item for item in items if item["task"] == task]
    random.Random(seed).shuffle(chosen)
    return tuple(
        (
            Prompt(task, tuple(item["messages"]), text=None, max_tokens=None),
            _response_format(schemas, item["id"].rpartition("-")[0]) if task is Text.JSON else {},
        )
        for item in chosen
    )


def _response_format(schemas: Mapping[str, Any], name: str) -> dict[str, Any]:
    schema = {"name": name, "schema": schemas[name], "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _system_prompt(cell: Cell, index: int) -> str:
    if not cell.text.has_long_system_prompt:
        return f"Conversation {index + 1}. {_SYSTEM}"
    head = f"Conversation {index + 1}. " if cell.text is Text.SYSTEM_NEW else ""
    return head + _long_system_prompt()


@functools.cache
def _long_system_prompt() -> str:
    text = _LICENCE.read_text(encoding="utf-8")[:_LICENCE_CHARACTERS]
    return f"{_SYSTEM}. You know this licence:\n\n{text}"
