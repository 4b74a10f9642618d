"""Which requests trigger a fault."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.testing.mock_vllm import Fault, FaultKind, encode_text
from paceline.testing.mock_vllm.faults.fault_book import FaultBook
from unit.mock_vllm.faults.faulty_server import BODY, serving


async def test_only_matching_requests_trigger_a_fault() -> None:
    async def statuses(fault: Fault) -> list[int]:
        async with serving(fault) as http:
            return [
                (await http.post("/v1/completions", json=BODY | {"max_tokens": 1})).status_code
                for _ in range(6)
            ]

    def fault(**conditions: Any) -> Fault:
        return Fault(FaultKind.STATUS, status=500, **conditions)

    assert await statuses(fault(request=3)) == [200, 200, 500, 200, 200, 200]
    assert await statuses(fault(every=2)) == [200, 500] * 3
    assert await statuses(fault(times=2)) == [500, 500, 200, 200, 200, 200]
    assert await statuses(fault(every=2, times=1)) == [200, 500, 200, 200, 200, 200]


async def test_a_fault_can_concern_the_requests_with_a_text_in_their_prompt() -> None:
    """Among them are those that continue an answer: their prompt is given as token ids."""
    fault = Fault(FaultKind.STATUS, status=500, containing="poison", request=2)
    async with serving(fault) as http:
        statuses = [
            (await http.post("/v1/completions", json=BODY | {"prompt": prompt})).status_code
            for prompt in ("a poison", "abc", encode_text("poisonous"), "poison", "poisson")
        ]
    assert statuses == [200, 200, 500, 200, 200]


async def test_a_fault_can_concern_the_requests_that_do_not_continue_an_answer() -> None:
    """A continuation's prompt has what was sent after the text with which the prompt ends."""
    fault = Fault(FaultKind.STATUS, status=500, ending="once")
    async with serving(fault) as http:
        statuses = [
            (await http.post("/v1/completions", json=BODY | {"prompt": prompt})).status_code
            for prompt in ("once", "at once", "once upon", encode_text("once upon"))
        ]
    assert statuses == [500, 500, 200, 200]


def test_a_rate_selects_that_fraction_and_the_same_seed_the_same_requests() -> None:
    def triggered(seed: int) -> list[bool]:
        book = FaultBook(seed)
        book.add(Fault(FaultKind.STATUS, rate=0.3))
        return [bool(book.matching("generate")) for _ in range(10_000)]

    assert sum(triggered(1)) == pytest.approx(3000, abs=200)
    assert triggered(1) == triggered(1)
    assert triggered(1) != triggered(2)


def test_a_matching_request_does_not_use_up_a_fault_until_it_triggers_it() -> None:
    book = FaultBook(0)
    entry = book.add(Fault(FaultKind.RESET, after_tokens=100, times=1))
    assert book.matching("generate") == [entry]
    assert book.matching("generate") == [entry]
    assert book.trigger(entry)
    assert not book.trigger(entry)
