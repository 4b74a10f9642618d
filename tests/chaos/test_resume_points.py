"""Seams at every token of answers full of characters whose bytes are spread over tokens.

And of clients that ask for ids, that gave stop strings, and of chunks with several tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.expected_requests import Known, ask_all, faults_of, known, num_struck
from chaos.fleet import Fleet, running_fleet
from paceline.mock_vllm import decode
from paceline.mock_vllm.model.vocabulary import END

NUM_TOKENS = 40
PATIENT = {"failures": {"min_samples": 100_000, "max_continuations": 12}}
"""No breaker opens, and one stream may meet all faults."""
MODES = {"one token a chunk": (), "several tokens a chunk": ("--tokens-per-chunk", "1,3,2")}


@pytest.fixture(scope="module", params=MODES.values(), ids=MODES.keys())
def pair(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    with running_fleet(2, "--tpot-ms", "1", *request.param, config=PATIENT) as running:
        yield running


def num_split(one: Known) -> int:
    """Seams of this answer that fall inside a character."""
    ids = one.expected.ids
    return sum(decode(ids[:k]).endswith("\ufffd") for k in range(1, len(ids)))


def test_the_answers_are_full_of_seams_inside_characters() -> None:
    """Or the next test would show nothing."""
    split = [num_split(one) for one in richest()]
    assert min(split) >= 6


def richest() -> list[Known]:
    """Of each kind of request, the one with most such seams."""
    asked = [known(number, max_tokens=NUM_TOKENS) for number in range(400)]
    by_kind: dict[object, list[Known]] = {}
    for one in asked:
        kind = (one.path, "return_token_ids" in one.body, "stop" in one.body)
        by_kind.setdefault(kind, []).append(one)
    return [max(some, key=num_split) for some in by_kind.values()]


async def test_a_seam_at_every_token(fleet: Fleet) -> None:
    asked = richest()
    for after_tokens in range(NUM_TOKENS):
        for replica in (0, 1):  # whichever takes it; the one that goes on counts from zero
            fleet.set_fault(replica, kind="reset", after_tokens=after_tokens, times=4)
        told = await ask_all(fleet, asked, name=f"seam-{after_tokens}")
        assert faults_of(fleet, asked, told) == []
        if after_tokens < NUM_TOKENS - 6:  # later ones may find the answer whole
            assert num_struck(fleet, told) > 0
        fleet.clear_faults()


async def test_seams_behind_special_tokens() -> None:
    """With `ignore_eos` the end of an answer is written as a token that nobody is shown."""
    every = 8
    flags = ("--tpot-ms", "1", "--eos-every-tokens", str(every))
    with running_fleet(2, *flags, config=PATIENT) as many_ends:
        asked = [
            known(number, max_tokens=NUM_TOKENS, ignore_eos=True, eos_every_tokens=every)
            for number in range(12)
        ]
        assert min(one.expected.ids.count(END) for one in asked) >= 1
        for after_tokens in (10, 20, 38):
            for replica in (0, 1):
                many_ends.set_fault(replica, kind="reset", after_tokens=after_tokens, times=6)
            told = await ask_all(many_ends, asked, name=f"special-{after_tokens}")
            assert faults_of(many_ends, asked, told) == []
            many_ends.clear_faults()
