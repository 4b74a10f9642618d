"""How the answers of a distributed engine are judged, and the servers that give them."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from engine.serving.greedy_answers import Comparison, GreedyAnswer, compare, read_answer

from benchmarks.distributed import ARMS, REFERENCE, judge, render_config, sum_up


def answer(*token_ids: int) -> GreedyAnswer:
    """Token 1 is 0.5 nats more likely than 2, at every position; others are not named."""
    return GreedyAnswer(token_ids, ({1: -1.0, 2: -1.5},) * len(token_ids))


def test_equal_answers_have_no_gap() -> None:
    assert compare(answer(1, 1), answer(1, 1)) == Comparison(2, False)


def test_the_reference_says_how_far_the_other_token_is_below_its_own() -> None:
    found = compare(answer(1, 1, 1), answer(1, 2, 7))
    assert found == Comparison(1, True, 0.5)
    assert found.is_near_tie(0.5)
    assert not found.is_near_tie(0.4)


@pytest.mark.parametrize("other", [answer(1, 3), answer(1), answer(1, 1, 1)])
def test_an_unlikely_token_and_another_length_are_no_near_ties(other: GreedyAnswer) -> None:
    found = compare(answer(1, 1), other)
    assert (found.differs, found.gap_nats, found.is_near_tie(100.0)) == (True, None, False)


def test_tokens_are_read_by_their_ids() -> None:
    choice = {
        "token_ids": [5],
        "logprobs": {
            "content": [{"top_logprobs": [{"token": "token_id:5", "logprob": -0.1},
                                          {"token": "token_id:9", "logprob": -2.0}]}],
        },
    }  # fmt: skip
    assert read_answer(choice) == GreedyAnswer((5,), ({5: -0.1, 9: -2.0},))


def test_near_ties_and_wrong_answers_are_counted_apart() -> None:
    references = [answer(1, 1, 1)] * 3
    run = judge(references, [answer(1, 1, 1), answer(1, 2, 9), answer(3)], near_tie_nats=0.6)
    assert (run["num_equal_answers"], run["num_near_ties"], run["num_wrong"]) == (1, 1, 1)
    assert (run["num_tokens"], run["num_equal_tokens"]) == (7, 4)
    assert run["differences"] == [
        {"answer": 1, "at": 1, "gap_nats": 0.5},
        {"answer": 2, "at": 0, "gap_nats": None},
    ]


def test_the_reference_alone_has_not_passed() -> None:
    reference = judge([answer(1)], [answer(1)], near_tie_nats=0.6)
    near = judge([answer(1)], [answer(2)], near_tie_nats=0.6)
    wrong = judge([answer(1)], [answer(3)], near_tie_nats=0.6)
    assert not sum_up([reference])["is_passed"]
    assert sum_up([reference, near])["is_passed"]
    assert sum_up([reference, near])["largest_gap_nats"] == 0.5
    total = sum_up([reference, near, wrong])
    assert (total["is_passed"], total["num_answers"], total["num_wrong"]) == (False, 2, 1)


def test_only_arms_with_drafts_have_a_draft_model() -> None:
    arguments = argparse.Namespace(
        target=Path("/twin"), policy="goodput", dtype="float32", compile=False, kv_cache_mib=1,
        ready_within_s=60.0,
    )  # fmt: skip
    drafts = {name: render_config(arguments, arm)["engine"]["draft"] for name, arm in ARMS.items()}
    assert drafts[REFERENCE] == "none"
    assert [name for name, draft in drafts.items() if draft != "none"] == [
        "one process, drafts",
        "tensor parallel 2, drafts",
    ]
