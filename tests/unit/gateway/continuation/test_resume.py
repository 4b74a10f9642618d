"""The request that continues a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paceline.runtime.gateway.continuation import eligibility
from paceline.runtime.gateway.continuation.resume import resume_body, tokens_left

CHAT: dict[str, Any] = {"model": "m", "messages": [], "stream": True}

CARRIED: dict[str, object] = {
    "model": "m",
    "temperature": 0.75,
    "top_p": 0.5,
    "top_k": 7,
    "min_p": 0.25,
    "logit_bias": {"5": -3.5},
    "allowed_token_ids": [5, 6],
    "repetition_penalty": 1.25,
    "stop_token_ids": [9],
    "ignore_eos": True,
    "include_stop_str_in_output": True,
    "user": "u",
    "cache_salt": "s",
}
"""Fields that the continuing engine must get as the first one did."""

CHANGED: dict[str, tuple[object, object]] = {
    "seed": (7, (7 + 3 * 0x9E3779B97F4A7C15) % 2**63),  # other random numbers: 3 tokens are drawn
    "min_tokens": (8, 5),
    "max_tokens": (99, 10),
    "stream": (True, True),
    "return_token_ids": (False, True),
    "prompt": ("text", [1, 2, 3, 4, 5]),
    # the gateway counts, and asks in case no token ids are reported
    "stream_options": (None, {"include_usage": True, "continuous_usage_stats": False}),
}
"""Fields that it gets with another value: the client's, and the engine's after 3 of its tokens."""

LEFT_OUT: dict[str, object] = {
    "max_completion_tokens": 99,  # as max_tokens
    "stop": ["x"],  # the gateway applies it
    # the ids of the prompt contain what they did
    "messages": [{"role": "user", "content": "x"}], "add_generation_prompt": True,
    "continue_final_message": False, "add_special_tokens": False, "truncate_prompt_tokens": 5,
    "truncation_side": "left",
    # the gateway's own field; what it means for this replica is among the extra fields
    "speculation": {"max_draft_length": 1},
    # without effect on the tokens of a completion
    "stream_interval": 4, "parallel_tool_calls": True, "metadata": {"a": "b"}, "store": False,
    "service_tier": "auto", "safety_identifier": "i", "prompt_cache_key": "k",
    "prompt_cache_retention": "24h", "prompt_cache_options": {"ttl": "1h"},
    "client_metadata": {"a": "b"}, "return_tokens_as_token_ids": True, "length_penalty": 0.5,
}  # fmt: skip
"""Fields of requests that can be continued and that it must not get."""


def body(request: dict[str, Any], max_tokens: int = 10, **extra: object) -> dict[str, Any]:
    return json.loads(resume_body(request, [1, 2], [3, 4, 5], max_tokens, extra))


def test_every_field_that_survives_is_in_one_of_the_tables() -> None:
    assert CARRIED.keys() | CHANGED.keys() | LEFT_OUT.keys() == eligibility._SURVIVES


@pytest.mark.parametrize("name", CARRIED)
def test_a_field_is_carried_over_by_value(name: str) -> None:
    assert body({**CHAT, name: CARRIED[name]})[name] == CARRIED[name]


def test_everything_that_must_survive_a_resume_does_and_nothing_else_is_sent() -> None:
    changed = {name: given for name, (given, _) in CHANGED.items()}
    assert body({**CARRIED, **LEFT_OUT, **changed}) == CARRIED | {
        name: resumed for name, (_, resumed) in CHANGED.items()
    }


def test_prompt_and_answer_so_far_are_the_prompt() -> None:
    assert body({**CHAT, "temperature": 0.5, "user": "u"}, 7, cache_salt="s") == {
        "model": "m",
        "temperature": 0.5,
        "user": "u",
        "prompt": [1, 2, 3, 4, 5],
        "max_tokens": 7,
        "stream": True,
        "return_token_ids": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": False},
        "cache_salt": "s",
    }


def test_the_cap_on_drafts_is_that_of_the_gateways_own_fields() -> None:
    request = {**CHAT, "speculation": {"max_draft_length": 1}}
    resumed = body(request, vllm_xargs={"paceline_max_draft_length": 1})
    assert resumed["vllm_xargs"] == {"paceline_max_draft_length": 1}
    assert "speculation" not in resumed


def test_stop_strings_are_left_to_the_gateway() -> None:
    assert "stop" not in body({**CHAT, "stop": ["x"]})


def test_a_client_that_reads_the_usage_of_every_chunk_has_it_asked_for() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    assert body({**CHAT, "stream_options": options})["stream_options"] == options


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
