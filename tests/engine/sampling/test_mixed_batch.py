"""Requests of every kind in one batch, against an engine without speculation, by value.

The same batch is served with another draft length in every step (3, 0, 1, 4, 2 in turn) and at
length 0. Some requests of it cap their drafts, some are served without any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest
from losslessness.bad_words import contains
from losslessness.engine_host import EngineHost

from engine.sampling.mixed_batch import (
    BUDGETS,
    CAPS,
    END,
    START,
    WORDS,
    Answers,
    Batch,
    cap_of,
    capped,
    make_batch,
    uncapped,
)
from paceline.demo import draft_path, target_path

pytestmark = pytest.mark.engine

CEILING = 4
LENGTHS = ["changing", "zero"]
LENGTH_RECORDER = "losslessness.verified_lengths"


def llm(speculative: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "model": str(target_path()),
        "dtype": "float32",
        "max_model_len": 512,
        "max_num_seqs": 64,
        "reasoning_config": {"reasoning_start_str": START, "reasoning_end_str": END},
        "speculative_config": speculative,
    }


@dataclass(frozen=True)
class Runs:
    """What engines answered to the same batch."""

    batch: Batch
    expected: Answers
    """Without speculation."""
    found: dict[str, Answers]
    """By draft lengths."""
    verified: dict[str, dict[str, list[int]]]
    """By draft lengths and kind: draft tokens of one request that one step verified."""
    state: dict[str, Any]
    """Of the speculating engine, after all batches."""


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    with EngineHost(llm(None)) as plain:
        batch = make_batch(plain)
        expected = batch.run(plain)
    speculative = {
        "method": "draft_model",
        "model": str(draft_path()),
        "num_speculative_tokens": CEILING,
    }
    found, verified = {}, {}
    with EngineHost(
        llm(speculative),
        policy={"policy": "fixed", "draft_length": CEILING},
        fault="losslessness.faults:plan_in_turn",
    ) as host:
        host.call(f"{LENGTH_RECORDER}:install")
        for lengths in LENGTHS:
            if lengths == "zero":
                host.control(op="set", ceiling=0)
            found[lengths] = batch.run(host)
            by_kind = batch.by_kind(host.call(f"{LENGTH_RECORDER}:take"))
            verified[lengths] = {kind: list(chain(*known)) for kind, known in by_kind.items()}
        yield Runs(batch, expected, found, verified, host.state())


def test_every_kind_and_cap_is_in_the_batch(runs: Runs) -> None:
    """The capped kinds repeat others, so the engine without speculation answers them alike."""
    assert {capped(kind, cap) for kind, caps in CAPS.items() for cap in caps} <= set(runs.expected)
    for kind, answers in runs.expected.items():
        expected = [answer["token_ids"] for answer in runs.expected[uncapped(kind)]]
        assert [answer["token_ids"] for answer in answers] == expected, kind


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(
    "kind",
    [
        "greedy",
        "short budget",
        "long budget",
        "grammar",
        "penalties",
        "logprobs",
        "bad words",
        "allowed ids",
        "stop",
        "least",
        "min_p",
        "logit bias",
        *(capped(kind, cap) for kind, caps in CAPS.items() for cap in caps),
    ],
)
def test_output_of_every_kind_is_that_without_speculation(
    runs: Runs, lengths: str, kind: str
) -> None:
    """Greedy, or drawn with a seed where the request gets no drafts.

    Verification draws random numbers, so with drafts a seed gives other tokens of the same
    distribution.
    """
    expected = [answer["token_ids"] for answer in runs.expected[kind]]
    assert [answer["token_ids"] for answer in runs.found[lengths][kind]] == expected
    if uncapped(kind) not in ("greedy", "logprobs"):
        assert expected != [answer["token_ids"] for answer in runs.expected["greedy"]]


def test_without_drafts_a_seed_gives_the_tokens_of_an_engine_without_speculation(
    runs: Runs,
) -> None:
    """At length 0 each token takes one draw of the request's generator, as in stock vLLM."""
    expected = [answer["token_ids"] for answer in runs.expected["seed"]]
    assert [answer["token_ids"] for answer in runs.found["zero"]["seed"]] == expected


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("kind", ["logprobs", "logprobs, cap 0"])
def test_logprobs_are_those_without_speculation(runs: Runs, lengths: str, kind: str) -> None:
    """Three per token, to float32's rounding."""
    pairs = zip(runs.found[lengths][kind], runs.expected[kind], strict=True)
    for found, expected in pairs:
        for ours, theirs in zip(found["logprobs"], expected["logprobs"], strict=True):
            assert ours == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_every_parameter_has_its_effect(runs: Runs, lengths: str) -> None:
    """The outputs obey the parameters, whatever the engine without speculation did."""
    batch, end = runs.batch, runs.batch.end_ids
    for kind, answers in runs.found[lengths].items():
        parameters = batch.kinds[kind]
        for answer, greedy in zip(answers, runs.found[lengths]["greedy"], strict=True):
            token_ids = answer["token_ids"]
            match uncapped(kind):
                case "short budget" | "long budget":
                    budget = BUDGETS[uncapped(kind)]
                    assert token_ids[budget : budget + len(end)] == end
                case "grammar":
                    assert re.fullmatch(WORDS, answer["text"])
                case "bad words":
                    assert contains(greedy["token_ids"], batch.bad_sequences)
                    assert not contains(token_ids, batch.bad_sequences)
                case "allowed ids":
                    assert set(token_ids) <= set(parameters["allowed_token_ids"])
                case "least":
                    assert len(token_ids) >= parameters["min_tokens"]
                case "logit bias":
                    assert set(greedy["token_ids"]) & parameters["logit_bias"].keys()
                    assert not set(token_ids) & parameters["logit_bias"].keys()
    seeded = [answer["token_ids"] for answer in runs.found[lengths]["seed, cap 0"]]
    assert [answer["token_ids"] for answer in runs.found[lengths]["min_p"]] != seeded


def test_each_request_gets_drafts_up_to_its_cap(runs: Runs) -> None:
    """Where others of the batch are verified with up to four; at length 0, no request gets any."""
    for kind, numbers in runs.verified["changing"].items():
        cap = cap_of(kind)
        if cap is None:
            assert numbers, kind
        else:
            assert set(numbers) == set(range(1, cap + 1)), kind
    for kind in ("greedy", "logprobs", "penalties", "seed"):
        assert set(runs.verified["changing"][kind]) == set(range(1, CEILING + 1))
    assert not any(runs.verified["zero"].values())


def test_the_batch_was_speculated(runs: Runs) -> None:
    assert runs.state["accepted_tokens_total"] > 100
    assert runs.state["policy_errors_total"] == 0
