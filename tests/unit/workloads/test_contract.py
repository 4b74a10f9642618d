"""Contract checks of `Workload`. They find every built-in workload by themselves."""

from __future__ import annotations

import re

import pytest

from paceline.foundation.workloads import (
    Prompt,
    SamplingSettings,
    TextKind,
    Workload,
    build_spec,
    load_workloads,
)

MAX_ANSWER_TOKENS = 4096


@pytest.fixture(params=load_workloads().values(), ids=lambda workload: workload.name)
def workload(request: pytest.FixtureRequest) -> Workload:
    found: Workload = request.param
    return found


def test_the_name_is_a_lower_case_word(workload: Workload) -> None:
    """It is a choice of a command line and, as the registry checks, a module's name."""
    assert re.fullmatch(r"[a-z][a-z0-9_]*", workload.name)


def test_the_description_fits_in_one_line_of_help(workload: Workload) -> None:
    assert re.fullmatch(r"\S.{9,78}\S", workload.description)


def test_the_temperature_is_one_that_servers_accept(workload: Workload) -> None:
    assert 0.0 <= workload.temperature <= 2.0


def test_the_text_kind_is_one_that_the_simulator_knows(workload: Workload) -> None:
    assert workload.text_kind is None or workload.text_kind in TextKind


def test_there_are_prompts_and_each_bounds_its_answer(workload: Workload) -> None:
    prompts = workload.prompts(seed=0)
    assert prompts
    for prompt in prompts:
        assert isinstance(prompt, Prompt)
        assert prompt.task
        assert prompt.max_tokens is not None
        assert 1 <= prompt.max_tokens <= MAX_ANSWER_TOKENS


def test_equal_seeds_give_equal_prompts(workload: Workload) -> None:
    assert workload.prompts(seed=3) == workload.prompts(seed=3)


def test_another_seed_gives_another_order_of_as_many_prompts(workload: Workload) -> None:
    first, second = workload.prompts(seed=3), workload.prompts(seed=4)
    assert first != second
    assert len(first) == len(second)


def test_the_caller_may_change_the_returned_list(workload: Workload) -> None:
    workload.prompts(seed=0).clear()
    assert workload.prompts(seed=0)


def test_every_prompt_becomes_a_request(workload: Workload) -> None:
    sampling = SamplingSettings("model", workload.temperature, None, None, 0, {})
    for index, prompt in enumerate(workload.prompts(seed=0)):
        spec = build_spec(prompt, sampling, index)
        assert spec.path in ("/v1/chat/completions", "/v1/completions")
        assert (b'"seed"' in spec.body) == (workload.temperature > 0)
