"""Which requests can be continued."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.runtime.gateway.continuation.eligibility import why_not_continued
from paceline.runtime.gateway.requests.fields import CHAT_FIELDS, COMPLETION_FIELDS

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
COMPLETION = {"model": "m", "prompt": "def f():", "stream": True}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 3},
        {"max_tokens": 5, "stop": ["\n\n"], "include_stop_str_in_output": True},
        {"min_tokens": 3, "stop_token_ids": [7]},
        {"n": 1, "logprobs": False, "tools": [], "tool_choice": "none"},
        {"presence_penalty": 0, "frequency_penalty": 0.0, "repetition_penalty": 1.2},
        {"response_format": {"type": "text"}, "structured_outputs": None},
        {"min_tokens": 0, "stop": "x"},
    ],
)
def test_what_the_ids_determine_survives(changes: dict[str, Any]) -> None:
    assert why_not_continued({**CHAT, **changes}) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n": 2}, "n "),
        ({"logprobs": True}, "logprobs"),
        ({"presence_penalty": 0.1}, "presence_penalty"),
        ({"frequency_penalty": -0.1}, "frequency_penalty"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"structured_outputs": {"regex": "a*"}}, "structured_outputs"),
        ({"echo": True}, "echo"),
        ({"stop": "x", "min_tokens": 2}, "min_tokens"),
        ({"skip_special_tokens": False}, "skip_special_tokens"),
        ({"thinking_token_budget": 5}, "thinking_token_budget"),
        ({"a_field_of_tomorrow": 1}, "a_field_of_tomorrow"),
    ],
)
def test_what_the_ids_do_not_determine_is_lost(changes: dict[str, Any], reason: str) -> None:
    why = why_not_continued({**CHAT, **changes})
    assert why is not None
    assert reason in why


def test_no_scores_are_lost_by_taking_none_for_no() -> None:
    """`logprobs: 0` in a completions request asks for the score of the chosen token."""
    assert why_not_continued({**COMPLETION, "logprobs": 0}) is not None


def test_one_prompt_may_be_text_or_ids_but_not_several() -> None:
    assert why_not_continued({**COMPLETION, "prompt": [1, 2, 3]}) is None
    assert why_not_continued({**COMPLETION, "prompt": ["a"]}) is not None
    assert why_not_continued({**COMPLETION, "prompt": [[1, 2], [3]]}) is not None


@pytest.mark.parametrize("ids", [[], [5]])
def test_no_ids_and_a_single_one_are_one_prompt(ids: list[int]) -> None:
    assert why_not_continued({**COMPLETION, "prompt": ids}) is None


@pytest.mark.parametrize(
    ("name", "harmless", "harmful"),
    [
        ("n", 1, 2),
        ("n", None, True),
        ("best_of", 1, 2),
        ("best_of", 1, 0),
        ("echo", False, True),
        ("echo", False, 0),
        ("logprobs", False, True),
        ("top_logprobs", 0, 1),
        ("top_logprobs", 0.0, -1),
        ("presence_penalty", 0, 1),
        ("frequency_penalty", 0, -1),
        ("tools", [], [{}]),
        ("tool_choice", "none", "auto"),
        ("response_format", {"type": "text"}, {"type": "json_object"}),
        ("skip_special_tokens", True, False),
        ("spaces_between_special_tokens", True, False),
        ("use_beam_search", False, True),
        ("suffix", "", "x"),
        ("bad_words", [], ["x"]),
        ("include_reasoning", True, False),
    ],
)
def test_a_field_is_harmless_with_one_value(name: str, harmless: object, harmful: object) -> None:
    assert why_not_continued({**COMPLETION, name: harmless}) is None
    assert why_not_continued({**COMPLETION, name: harmful}) == f"{name} cannot be carried over"


@pytest.mark.parametrize(
    ("stop", "min_tokens", "why"),
    [
        ("x", 1, "stop together with min_tokens cannot be carried over"),
        (["x"], 1, "stop together with min_tokens cannot be carried over"),
        ("x", None, None),
        ([], 1, None),
        (None, 1, None),
    ],
)
def test_stop_strings_are_lost_with_least_tokens_only(
    stop: object, min_tokens: int | None, why: str | None
) -> None:
    assert why_not_continued({**CHAT, "stop": stop, "min_tokens": min_tokens}) == why


def test_every_field_that_survives_or_is_harmless_is_one_that_clients_can_send() -> None:
    """Any other name would be a typing error."""
    from paceline.runtime.gateway.continuation import eligibility

    known = {*CHAT_FIELDS, *COMPLETION_FIELDS, "n", "cache_salt", "ignore_eos", "use_beam_search"}
    assert known >= eligibility._SURVIVES
    assert known >= set(eligibility._HARMLESS)
