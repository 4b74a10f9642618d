"""The cells, and the requests of their slices: equal for all servers, and new in every slice."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import jsonschema
import pytest

from benchmarks.headline.cells import (
    DEFAULT_CELLS,
    PROMPTS,
    USERS,
    Cell,
    Text,
    parse_cells,
    slice_load,
    toy,
)
from paceline.foundation.workloads import load_prompt_file

CELLS = parse_cells(DEFAULT_CELLS)
BY_NAME = {cell.name: cell for cell in CELLS}


def bodies(name: str, number: int) -> list[dict[str, Any]]:
    load = slice_load(BY_NAME[name], CELLS, number, "m", seed=0)
    return [json.loads(spec.body) for spec in load.requests]


def test_the_default_cells_have_every_value_twice() -> None:
    answers = [cell for cell in CELLS if not cell.text.has_long_system_prompt]
    assert min(Counter(cell.text for cell in answers).values()) >= 2
    assert {cell.text for cell in CELLS} == set(Text)
    by_users = Counter(cell.users for cell in answers)
    assert set(by_users) == set(USERS)
    assert min(by_users.values()) >= 2
    assert min(Counter(cell.is_sampled for cell in answers).values()) >= 2


def test_the_prompts_are_what_the_tools_for_prompts_read() -> None:
    counts = Counter(prompt.task for prompt in load_prompt_file(PROMPTS))
    assert counts == {"chat": 40, "edit": 20, "code": 20, "json": 20}


def test_a_slice_is_the_same_for_every_server() -> None:
    assert bodies("chat-4", 3) == bodies("chat-4", 3)


def test_no_two_requests_of_a_run_begin_alike() -> None:
    names = [cell.name for cell in CELLS if cell.text is not Text.SYSTEM_CACHED]
    found = [body for number in range(4) for name in names for body in bodies(name, number)]
    beginnings = {body["messages"][0]["content"].split(". ")[0] for body in found}
    assert len(beginnings) == len(found)


def test_sampled_cells_have_seeds_of_their_slice() -> None:
    first, second = bodies("edit-sampled-4", 0), bodies("edit-sampled-4", 1)
    assert {body["temperature"] for body in first} == {0.7}
    assert not {body["seed"] for body in first} & {body["seed"] for body in second}
    greedy = bodies("edit-1", 0)[0]
    assert greedy["temperature"] == 0.0
    assert "seed" not in greedy


def test_json_answers_are_held_to_the_schema_of_their_prompt() -> None:
    """24 requests use all 20 prompts; each names the keys that its schema wants."""
    for body in bodies("json-sampled-16", 0):
        schema = body["response_format"]["json_schema"]["schema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        asked = body["messages"][-1]["content"]
        assert f"with the keys {', '.join(schema['required'])}." in asked
    assert all("response_format" not in body for body in bodies("code-4", 0))


def test_a_cached_system_prompt_is_the_same_in_all_slices_and_primed_with_another_question() -> (
    None
):
    [system] = {
        body["messages"][0]["content"] for n in (0, 5) for body in bodies("system-cached", n)
    }
    load = slice_load(BY_NAME["system-cached"], CELLS, 0, "m", seed=0)
    assert load.priming is not None
    primed = json.loads(load.priming.body)["messages"]
    assert primed[0]["content"] == system
    assert primed[-1] not in [body["messages"][-1] for body in bodies("system-cached", 0)]
    assert slice_load(BY_NAME["chat-1"], CELLS, 0, "m", seed=0).priming is None


def test_a_new_system_prompt_is_as_long_as_the_cached_one() -> None:
    [cached] = {body["messages"][0]["content"] for body in bodies("system-cached", 0)}
    for body in bodies("system-new", 1):
        assert body["messages"][0]["content"].endswith(cached)
        assert body["max_tokens"] == 16


def test_cells_are_chosen_by_name() -> None:
    assert [cell.name for cell in parse_cells(["json-sampled-64", "chat-1", "chat-1"])] == [
        "json-sampled-64",
        "chat-1",
    ]
    for name in ("chat-2", "poem-1", "system-cached-4", "mixed-16"):
        with pytest.raises(ValueError, match=f"the cell is '{name}'"):
            parse_cells([name])


def test_a_cell_fills_its_slots() -> None:
    with pytest.raises(ValueError, match="at least 4, one for each user"):
        Cell(Text.CHAT, 4, 3)
    assert [toy(cell).num_requests for cell in parse_cells(["chat-1", "chat-16"])] == [2, 16]
    assert {toy(cell).max_tokens for cell in CELLS} == {8}
