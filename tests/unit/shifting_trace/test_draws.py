"""Requests by number."""

from __future__ import annotations

from collections import Counter

from paceline.foundation.shifting_trace import Script, TokenRange, TracePhase, draw_request

PHASE = TracePhase("b", (("easy", 1.0), ("hard", 3.0)), concurrency=1, duration_s=1.0)


def test_a_request_is_a_function_of_the_seed_the_phase_and_its_number() -> None:
    script = Script((0.5,), TokenRange(10, 500), TokenRange(10, 500))

    def drawn(phase_number: int, index: int, seed: int) -> tuple[str, tuple[int, int]]:
        draw = draw_request(PHASE, phase_number, index, seed)
        return draw.category, draw.token_counts(script)

    assert drawn(1, 5, 0) == drawn(1, 5, 0)
    others = {drawn(1, 5, 0), drawn(2, 5, 0), drawn(1, 6, 0), drawn(1, 5, 1)}
    assert len(others) == 4


def test_categories_come_in_proportion_to_their_weights() -> None:
    counts = Counter(draw_request(PHASE, 0, index, 0).category for index in range(4000))
    assert 900 < counts["easy"] < 1100


def test_lengths_stay_within_their_ranges_and_reach_both_ends() -> None:
    script = Script((0.5,), TokenRange(3, 5), TokenRange(7, 7))
    counts = [draw_request(PHASE, 0, index, 0).token_counts(script) for index in range(100)]
    assert {prompt for prompt, _ in counts} == {3, 4, 5}
    assert {output for _, output in counts} == {7}
