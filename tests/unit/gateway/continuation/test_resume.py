"""The request that continues a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paceline.gateway.continuation.resume import resume_body, tokens_left

CHAT: dict[str, Any] = {"model": "m", "messages": [], "stream": True}


def body(request: dict[str, Any], max_tokens: int = 10, **extra: object) -> dict[str, Any]:
    return json.loads(resume_body(request, [1, 2], [3, 4, 5], max_tokens, extra))


def test_prompt_and_answer_so_far_are_the_prompt() -> None:
    assert body({**CHAT, "temperature": 0.5, "user": "u"}, 7, cache_salt="s") == {
        "model": "m",
        "temperature": 0.5,
        "user": "u",
        "prompt": [1, 2, 3, 4, 5],
        "max_tokens": 7,
        "stream": True,
        "return_token_ids": True,
        "cache_salt": "s",
    }


def test_the_cap_on_drafts_is_that_of_the_gateways_own_fields() -> None:
    request = {**CHAT, "speculation": {"max_draft_length": 1}}
    resumed = body(request, vllm_xargs={"paceline_max_draft_length": 1})
    assert resumed["vllm_xargs"] == {"paceline_max_draft_length": 1}
    assert "speculation" not in resumed


def test_stop_strings_and_usage_are_left_to_the_gateway() -> None:
    request = {**CHAT, "stop": ["x"], "stream_options": {"include_usage": True}}
    assert {"stop", "stream_options"}.isdisjoint(body(request))


def test_a_seed_differs_from_the_first_engines_and_between_resume_points() -> None:
    one = json.loads(resume_body({**CHAT, "seed": 7}, [1], [2], 5, {}))["seed"]
    two = json.loads(resume_body({**CHAT, "seed": 7}, [1], [2, 3], 5, {}))["seed"]
    assert len({7, one, two}) == 3
    assert all(0 <= seed < 2**63 for seed in (one, two))
    assert body({**CHAT, "seed": -(2**63)})["seed"] >= 0


@pytest.mark.parametrize(("asked", "left"), [(2, None), (3, 0), (9, 6)])
def test_least_tokens_count_those_that_are_there(asked: int, left: int | None) -> None:
    assert body({**CHAT, "min_tokens": asked})["min_tokens"] == (left or 0)


@pytest.mark.parametrize(
    ("request_changes", "max_model_len", "expected"),
    [
        ({"max_tokens": 10}, None, 7),
        ({"max_tokens": 10}, 100, 7),
        ({"max_tokens": 10}, 9, 4),
        ({"max_completion_tokens": 5, "max_tokens": 10}, 100, 2),
        ({}, 100, 95),
        ({}, None, None),
        ({"max_tokens": 3}, 100, 0),
    ],
)
def test_a_chat_continues_up_to_its_limit_or_the_context(
    request_changes: dict[str, Any], max_model_len: int | None, expected: int | None
) -> None:
    left = tokens_left(
        {**CHAT, **request_changes}, num_prompt=2, num_emitted=3, max_model_len=max_model_len
    )
    assert left == expected


def test_a_completion_without_a_limit_has_sixteen_tokens() -> None:
    request = {"model": "m", "prompt": "x"}
    assert tokens_left(request, num_prompt=2, num_emitted=3, max_model_len=100) == 13
