"""The answer in plain words."""

from __future__ import annotations

import math
from typing import Any

from paceline.foundation.results.environment import describe_environment
from paceline.workbench.bench.quick.config import QuickConfig
from paceline.workbench.bench.quick.gain_ratio import gain_of_pairs, unknown_gain
from paceline.workbench.bench.quick.levels import Window
from paceline.workbench.bench.quick.measure import QuickResult
from paceline.workbench.bench.quick.report import render_answer, render_document


def result_with(**changes: Any) -> QuickResult:
    return QuickResult(QuickConfig("http://h"), describe_environment(["quick"]), **changes)


def window(level: int, ttft_s: float) -> Window:
    return Window(level, (ttft_s,) * 30, 100.0, 0, 1.0)


def test_the_answer_of_a_full_measurement() -> None:
    result = result_with(
        windows=[window(11, 0.4), window(12, math.inf)],
        gain=gain_of_pairs([(17.0, 10.0), (34.0, 20.0)], 5),
    )
    assert list(render_answer(result)) == [
        "The server holds 11 chats at once (11 to 11) before the time to first token passes 1 s "
        "for one request in ten.",
        "Speculation makes answers 1.70 times as fast (1.70 to 1.70) with 5 at once.",
    ]


def test_the_answer_where_nothing_is_known() -> None:
    first, second = render_answer(result_with(gain=unknown_gain("no governor")))
    assert first.startswith("There was no time")
    assert second == "The gain of speculation is unknown: no governor."


def test_a_slow_server_holds_no_chat() -> None:
    first, *_ = render_answer(result_with(windows=[window(1, 3.0)]))
    assert first == "Even one chat alone does not get its first token within 1 s."


def test_misses_are_counted_and_the_document_has_no_infinity() -> None:
    document = render_document(result_with(windows=[window(1, 0.4), window(2, math.inf)]))
    assert document["levels"][1]["num_missed"] == 30
    assert document["levels"][1]["ttft_p90_ms"] is None
    assert document["levels"][0]["ttft_p90_ms"] == 400
