"""The cells of the benchmark: a kind of text under a load, with the requests of every slice.

A slice is what one server answers in its turn. All servers answer the same requests in a slice, in
the same order; no request comes again before all other prompts of its text have been used.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from paceline.workloads import (
    HeldoutWorkload,
    Prompt,
    SamplingSettings,
    add_system_prompt,
    build_spec,
    heldout_text,
    load_workload,
)
from paceline.workloads.builtin.shared_prompt import SYSTEM_PROMPT
from paceline.workloads.requests import RequestSpec

_SYSTEM_CHARACTERS = 3600
"""Of the long system prompt: about 1,100 tokens of the bundled pair, which holds 2,048."""
_PROBE_TOKENS = 16
"""Of an answer in the cells about the time to the first token."""

_SEED_STRIDE = 1000
"""Between the seeds of two slices; above the number of requests of a slice."""


class Text(StrEnum):
    """What a cell's prompts are."""

    MIXED = "mixed"
    """Chats (function bodies, docstrings, renames, JSON) and code to continue, in turn; greedy."""
    HARD = "hard"
    """Code to continue, at temperature 1."""
    SYSTEM_CACHED = "system-cached"
    """Chats after one long system prompt, which the server has seen before."""
    SYSTEM_NEW = "system-new"
    """Chats after a system prompt of the same length that no request had before."""

    @property
    def has_system_prompt(self) -> bool:
        return self in (Text.SYSTEM_CACHED, Text.SYSTEM_NEW)


@dataclass(frozen=True, slots=True)
class Cell:
    """One text under one load."""

    name: str
    text: Text
    concurrency: int | None
    """Requests in flight in a closed loop; None: Poisson arrivals at the offered rate."""
    num_requests: int
    """In a slice; at least `concurrency`."""

    def __post_init__(self) -> None:
        if self.num_requests < max(1, self.concurrency or 0):
            raise ValueError(
                f"cell {self.name!r} has {self.num_requests} requests; it must have at least one "
                f"for each of {self.concurrency or 1} slots"
            )

    @property
    def is_throughput(self) -> bool:
        """Whether the rate of tokens in this cell is the server's own: a closed loop of answers."""
        return self.concurrency is not None and not self.text.has_system_prompt


CELLS = (
    Cell("mixed-1", Text.MIXED, 1, 4),
    Cell("mixed-4", Text.MIXED, 4, 12),
    Cell("mixed-16", Text.MIXED, 16, 32),
    Cell("hard-4", Text.HARD, 4, 12),
    Cell("offered", Text.MIXED, None, 20),
    Cell("system-cached", Text.SYSTEM_CACHED, 1, 6),
    Cell("system-new", Text.SYSTEM_NEW, 1, 6),
)
SATURATED = "mixed-16"
"""Where the offered rate is derived from, and the price of a token."""
OFFERED = "offered"


def parse_cells(names: Sequence[str]) -> tuple[Cell, ...]:
    """The cells of these names; ValueError that says what is allowed."""
    by_name = {cell.name: cell for cell in CELLS}
    for name in names:
        if name not in by_name:
            raise ValueError(f"the cell is {name!r}; it must be one of {', '.join(by_name)}")
    if OFFERED in names and SATURATED not in names:
        raise ValueError(f"the cell {OFFERED!r} takes its rate from {SATURATED!r}; add it")
    return tuple(by_name[name] for name in dict.fromkeys(names))


def toy(cell: Cell) -> Cell:
    """The cell with the fewest requests that its load allows, for dry runs."""
    return dataclasses.replace(cell, num_requests=max(2, cell.concurrency or 0))


def slice_requests(
    cell: Cell, cells: Sequence[Cell], number: int, model: str, *, max_tokens: int, seed: int
) -> list[RequestSpec]:
    """The requests of slice `number` of this cell, (num_requests,).

    `number` counts the slices of the whole run; `cells` are all cells of the run. An answer has at
    most `max_tokens` tokens, or fewer where its prompt says so or in the cells with a system
    prompt.
    """
    first = _first_prompt(cell, cells, number)
    prompts = _prompts(_source(cell.text), seed)
    chosen = [prompts[(first + place) % len(prompts)] for place in range(cell.num_requests)]
    limit = _PROBE_TOKENS if cell.text.has_system_prompt else max_tokens
    sampling = SamplingSettings(
        model=model,
        temperature=1.0 if cell.text is Text.HARD else 0.0,
        top_p=None,
        max_tokens=None,
        seed=seed + number * _SEED_STRIDE,
        extra_body={},
    )
    return [
        build_spec(_limited(_with_system(cell, prompt, first + place), limit), sampling, place)
        for place, prompt in enumerate(chosen)
    ]


def priming_request(
    cell: Cell, cells: Sequence[Cell], number: int, model: str, *, max_tokens: int, seed: int
) -> RequestSpec | None:
    """An unrecorded request before the slice that puts the system prompt into the prefix cache.

    None for cells without one that requests share. It asks what the slice does not ask.
    """
    if cell.text is not Text.SYSTEM_CACHED:
        return None
    after = dataclasses.replace(cell, num_requests=cell.num_requests + 1)
    specs = slice_requests(after, cells, number, model, max_tokens=max_tokens, seed=seed)
    return specs[-1]


def _first_prompt(cell: Cell, cells: Sequence[Cell], number: int) -> int:
    """Index of the slice's first prompt: the cells that share prompts use them one after another.

    The priming request of a cell takes one prompt more.
    """
    shared = [one for one in cells if _source(one.text) == _source(cell.text)]
    widths = [one.num_requests + (one.text is Text.SYSTEM_CACHED) for one in shared]
    before = sum(widths[: [one.name for one in shared].index(cell.name)])
    return number * sum(widths) + before


def _source(text: Text) -> str:
    return "system" if text.has_system_prompt else str(text)


@functools.cache
def _prompts(source: str, seed: int) -> tuple[Prompt, ...]:
    """The prompts of a source in the order of the seed, each text once."""
    if source == "system":
        chats = HeldoutWorkload(source, "short questions", ("complete", "docstring"))
        prompts = chats.prompts(seed)
    else:
        prompts = load_workload(source).prompts(seed)
    return tuple({str(prompt.messages or prompt.text): prompt for prompt in prompts}.values())


def _limited(prompt: Prompt, max_tokens: int) -> Prompt:
    return dataclasses.replace(prompt, max_tokens=min(prompt.max_tokens or max_tokens, max_tokens))


def _with_system(cell: Cell, prompt: Prompt, index: int) -> Prompt:
    """The prompt after the cell's system prompt; a new one differs from its beginning on."""
    if not cell.text.has_system_prompt:
        return prompt
    head = f"Project {index + 1}. " if cell.text is Text.SYSTEM_NEW else ""
    [found] = add_system_prompt([prompt], head + _system_prompt())
    return found


@functools.cache
def _system_prompt() -> str:
    """Rules of a project, and parts of its source."""
    text = f"{SYSTEM_PROMPT}\n\nParts of the project:\n\n{heldout_text()}"
    return text[:_SYSTEM_CHARACTERS]
