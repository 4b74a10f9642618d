"""What one recording writes about the requests and steps of an engine."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.foundation.recording.records import MAX_CATEGORIES, Header, RequestRecord, StepBlock
from paceline.runtime.engine.recording.session import BLOCK_S, RecordingSession, category_of
from unit.engine.recording.requests import Request, sample
from unit.recording.lines import HEADER


class Engine:
    """A session with its lines, and the requests that have not ended."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.requests: dict[str, Request] = {}
        self.session = RecordingSession(HEADER, self.lines.append)

    def add(self, request: Request, now_s: float, cap: int | None = None) -> None:
        self.requests[request.request_id] = request
        self.session.request_added(request, cap, now_s)

    def step(self, now_s: float, step: Any = None, *scheduled: str) -> None:
        step = sample() if step is None else step
        names = scheduled or tuple(self.requests)
        self.session.step_answered(step, names, self.requests, {}.get, now_s)
        self.session.step_finished(step, self.requests, now_s)

    def of(self, kind: type) -> list[Any]:
        return [line for line in self.lines if isinstance(line, kind)]


def test_the_life_of_a_request() -> None:
    """Arrives at 1 s, first token at 1.5 s, two drafts, ends at 2 s."""
    engine = Engine()
    request = Request("a")
    engine.add(request, 1.0, cap=4)
    engine.step(1.2)  # its prompt
    request.num_output_tokens = 1
    engine.step(1.5)
    request.prefill_stats = None  # vLLM has taken it
    request.num_output_tokens = 4
    engine.step(1.7, sample("a", drafted=(2,), accepted=(2,)))
    engine.step(1.8, sample("a", drafted=(2,), accepted=(0,)))
    request.num_output_tokens = 6
    del engine.requests["a"]
    engine.step(2.0, sample(), "a")
    assert isinstance(engine.lines[0], Header)
    assert engine.of(RequestRecord) == [
        RequestRecord(
            category="greedy",
            arrived_s=1.0,
            prompt_tokens=100,
            cached_tokens=32,
            output_tokens=6,
            first_token_s=0.5,
            ended_s=2.0,
            draft_cap=4,
            asked=2,
            tried=(2, 1),
            accepted=(1, 1),
        )
    ]


def test_a_request_from_before_the_recording_counts_what_it_makes_from_then_on() -> None:
    engine = Engine()
    request = engine.requests["a"] = Request("a")
    request.num_output_tokens = 40
    engine.step(0.5)
    request.num_output_tokens = 43
    engine.session.finish(1.0)
    (record,) = engine.of(RequestRecord)
    assert (record.arrived_s, record.under_way, record.output_tokens) == (0.0, True, 3)
    assert (record.first_token_s, record.ended_s) == (None, None)


def test_a_step_does_not_look_at_requests_that_wait() -> None:
    """Thousands may wait, and a step takes milliseconds."""

    class Counted(Request):
        num_reads = 0

        @property
        def num_output_tokens(self) -> int:
            self.num_reads += 1
            return 0

        @num_output_tokens.setter
        def num_output_tokens(self, number: int) -> None:
            pass

    engine = Engine()
    waiting = Counted("waits")
    engine.add(Request("a"), 0.1)
    engine.add(waiting, 0.1)
    for number in range(10):
        engine.step(0.2 + 0.1 * number, sample(), "a")
    assert waiting.num_reads == 0


def test_a_request_that_ended_is_written_once() -> None:
    """Asynchronous scheduling: it is in one more step."""
    engine = Engine()
    engine.add(Request("a"), 0.1)
    del engine.requests["a"]
    engine.step(0.2, sample(), "a")
    engine.step(0.3, sample(), "a")
    assert len(engine.of(RequestRecord)) == engine.session.num_requests == 1


def test_a_request_that_was_aborted_while_it_waited_ends_with_the_block() -> None:
    engine = Engine()
    engine.add(Request("a"), 0.1)
    engine.add(Request("b"), 0.1)
    del engine.requests["a"]
    engine.step(BLOCK_S + 1, sample(), "b")
    assert [record.output_tokens for record in engine.of(RequestRecord)] == [0]


def test_blocks_have_their_steps_and_the_tokens_of_all_requests() -> None:
    """Ten tokens by 5 s, then a request that ended with 14 and one that has 2."""
    engine = Engine()
    first, second = Request("a"), Request("b")
    engine.add(first, 0.0)
    first.num_output_tokens = 10
    engine.step(1.0)
    engine.step(5.0)
    engine.add(second, 6.0)
    first.num_output_tokens, second.num_output_tokens = 14, 2
    del engine.requests["a"]
    engine.step(7.0, sample(duration_s=None), "a", "b")
    engine.step(8.0)
    engine.session.finish(9.0)
    blocks = engine.of(StepBlock)
    assert [(b.from_s, b.to_s, b.output_tokens) for b in blocks] == [(0, 5, 10), (5, 9, 6)]
    assert [sum(cell.count for cell in b.cells) for b in blocks] == [2, 1]
    assert engine.session.num_steps == 4


@pytest.mark.parametrize(
    ("sampling", "category"),
    [
        ({}, "greedy"),
        ({"temperature": 0.7}, "sampled"),
        ({"structured_outputs": object()}, "structured"),
        ({"extra_args": {"paceline_category": "code"}}, "code"),
        ({"extra_args": {"paceline_category": "a text with a name"}}, "other"),
        ({"extra_args": {"paceline_category": "code\n"}}, "other"),
        ({"extra_args": {"paceline_category": 5}}, "other"),
        ({"extra_args": {"unrelated": 1}}, "greedy"),
    ],
)
def test_the_category_is_a_valid_label_or_the_kind_of_sampling(
    sampling: dict[str, Any], category: str
) -> None:
    assert category_of(Request("a", **sampling).sampling_params) == category


def test_a_pooling_request_has_no_sampling() -> None:
    assert category_of(None) == "other"


def test_the_number_of_categories_is_bounded() -> None:
    """One place is kept for the others."""
    engine = Engine()
    for number in range(MAX_CATEGORIES + 5):
        label = {"paceline_category": f"c{number}"}
        engine.add(Request(str(number), extra_args=label), 0.0)
    engine.session.finish(1.0)
    categories = [record.category for record in engine.of(RequestRecord)]
    assert len(set(categories)) == MAX_CATEGORIES
    assert categories.count("other") == 6
