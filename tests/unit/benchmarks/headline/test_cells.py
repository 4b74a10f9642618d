"""The requests of the slices: equal for all servers, and new in every slice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.headline.cells import (
    CELLS,
    Cell,
    Text,
    parse_cells,
    priming_request,
    slice_requests,
    toy,
)

BY_NAME = {cell.name: cell for cell in CELLS}


def bodies(name: str, number: int) -> list[dict[str, Any]]:
    specs = slice_requests(BY_NAME[name], CELLS, number, "m", max_tokens=96, seed=0)
    return [json.loads(spec.body) for spec in specs]


def texts(name: str, number: int) -> list[str]:
    return [json.dumps(body.get("messages") or body["prompt"]) for body in bodies(name, number)]


def test_a_slice_is_the_same_for_every_server() -> None:
    assert bodies("mixed-4", 3) == bodies("mixed-4", 3)


def test_cells_of_one_text_and_their_slices_share_no_prompt() -> None:
    """4 + 12 + 32 + 20 mixed prompts per slice: seven slices take 476 of the 500."""
    mixed = [cell.name for cell in CELLS if cell.text is Text.MIXED]
    found = [text for number in range(7) for name in mixed for text in texts(name, number)]
    assert len(found) == 476
    assert len(set(found)) == 476


def test_mixed_text_has_every_task() -> None:
    specs = slice_requests(BY_NAME["mixed-16"], CELLS, 0, "m", max_tokens=96, seed=0)
    assert {spec.task for spec in specs} == {"complete", "docstring", "rename", "json", "code"}


def test_hard_text_is_sampled_with_seeds_of_its_slice() -> None:
    first, second = bodies("hard-4", 0), bodies("hard-4", 1)
    assert {body["temperature"] for body in first} == {1.0}
    assert not {body["seed"] for body in first} & {body["seed"] for body in second}
    assert "seed" not in bodies("mixed-4", 0)[0]


def test_answers_are_no_longer_than_the_limit_or_their_prompt_says() -> None:
    assert max(body["max_tokens"] for body in bodies("mixed-16", 0)) == 96
    specs = slice_requests(BY_NAME["mixed-16"], CELLS, 0, "m", max_tokens=1000, seed=0)
    limits = {spec.task: json.loads(spec.body)["max_tokens"] for spec in specs}
    assert limits["rename"] == 384
    assert {body["max_tokens"] for body in bodies("system-new", 0)} == {16}


def test_a_cached_system_prompt_is_the_same_in_all_slices_and_primed_with_another_question() -> (
    None
):
    cell = BY_NAME["system-cached"]
    first, later = bodies("system-cached", 0), bodies("system-cached", 5)
    systems = {body["messages"][0]["content"] for body in (*first, *later)}
    assert len(systems) == 1
    priming = priming_request(cell, CELLS, 0, "m", max_tokens=96, seed=0)
    assert priming is not None
    primed = json.loads(priming.body)["messages"]
    assert {primed[0]["content"]} == systems
    asked = [texts(name, n) for n in (0, 1) for name in ("system-cached", "system-new")]
    assert primed[-1] not in [body["messages"][-1] for body in first]
    assert len({text for found in asked for text in found}) == sum(map(len, asked))


def test_a_new_system_prompt_begins_unlike_any_other_and_is_as_long() -> None:
    new = [body["messages"][0]["content"] for n in (0, 1) for body in bodies("system-new", n)]
    beginnings = {text[:20] for text in new}
    assert len(beginnings) == len(new)
    [cached] = {body["messages"][0]["content"] for body in bodies("system-cached", 0)}
    assert all(0 < len(text) - len(cached) < 20 for text in new)
    assert priming_request(BY_NAME["system-new"], CELLS, 0, "m", max_tokens=9, seed=0) is None


def test_cells_are_chosen_by_name() -> None:
    assert [cell.name for cell in parse_cells(["hard-4", "mixed-1", "hard-4"])] == [
        "hard-4",
        "mixed-1",
    ]
    with pytest.raises(ValueError, match="the cell is 'mixed-2'"):
        parse_cells(["mixed-2"])
    with pytest.raises(ValueError, match="takes its rate from 'mixed-16'"):
        parse_cells(["offered"])


def test_a_cell_fills_its_slots() -> None:
    with pytest.raises(ValueError, match="at least one for each of 4 slots"):
        Cell("few", Text.MIXED, 4, 3)
    assert [toy(cell).num_requests for cell in CELLS] == [2, 4, 16, 4, 2, 2, 2]
