"""Streams are continued correctly from every token, even from inside multi-byte characters.

Covers chats and completions, requests with token ids and with stop strings, and chunks of several
tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.expected_requests import (
    ExpectedRequest,
    expected_request,
    find_errors,
    num_failed_over,
    send_all,
)
from chaos.fleet import Fleet, running_fleet
from paceline.testing.mock_vllm import decode
from paceline.testing.mock_vllm.model.vocabulary import END

NUM_TOKENS = 40
CONFIG = {"failures": {"min_samples": 100_000, "max_continuations": 12}}
"""Keeps all breakers closed, and lets one stream be continued after every fault."""
MODES = {"one token a chunk": (), "several tokens a chunk": ("--tokens-per-chunk", "1,3,2")}


@pytest.fixture(scope="module", params=MODES.values(), ids=MODES.keys())
def pair(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    with running_fleet(2, "--tpot-ms", "1", *request.param, config=CONFIG) as running:
        yield running


def num_inside_characters(request: ExpectedRequest) -> int:
    """Count the resume points of this answer that are inside a character."""
    ids = request.answer.ids
    return sum(decode(ids[:k]).endswith("\ufffd") for k in range(1, len(ids)))


def test_every_answer_has_resume_points_inside_characters() -> None:
    """Otherwise the next test would not cover them."""
    assert min(num_inside_characters(request) for request in hardest_requests()) >= 6


def hardest_requests() -> list[ExpectedRequest]:
    """Return, for each kind of request, the one with the most such resume points."""
    by_kind: dict[object, list[ExpectedRequest]] = {}
    for number in range(400):
        request = expected_request(number, max_tokens=NUM_TOKENS)
        kind = (request.path, "return_token_ids" in request.body, "stop" in request.body)
        by_kind.setdefault(kind, []).append(request)
    return [max(requests, key=num_inside_characters) for requests in by_kind.values()]


async def test_continuing_from_every_token(fleet: Fleet) -> None:
    requests = hardest_requests()
    for after_tokens in range(NUM_TOKENS):
        # Any of the replicas may get a request; the one that continues it counts from zero.
        for replica in (0, 1):
            fleet.add_fault(replica, kind="reset", after_tokens=after_tokens, times=4)
        transcripts = await send_all(fleet, requests, name=f"resume-{after_tokens}")
        assert find_errors(fleet, requests, transcripts) == []
        if after_tokens < NUM_TOKENS - 6:  # answers may end before a later fault
            assert num_failed_over(fleet, transcripts) > 0
        fleet.clear_faults()


async def test_continuing_after_special_tokens() -> None:
    """With `ignore_eos`, answers contain EOS tokens, which add no text."""
    every = 8
    flags = ("--tpot-ms", "1", "--eos-every-tokens", str(every))
    with running_fleet(2, *flags, config=CONFIG) as fleet:
        requests = [
            expected_request(number, max_tokens=NUM_TOKENS, ignore_eos=True, eos_every_tokens=every)
            for number in range(12)
        ]
        assert min(request.answer.ids.count(END) for request in requests) >= 1
        for after_tokens in (10, 20, 38):
            for replica in (0, 1):
                fleet.add_fault(replica, kind="reset", after_tokens=after_tokens, times=6)
            transcripts = await send_all(fleet, requests, name=f"special-{after_tokens}")
            assert find_errors(fleet, requests, transcripts) == []
            fleet.clear_faults()
