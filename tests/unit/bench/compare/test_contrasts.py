"""Blocks are summarized by definition, and the differences of a round cancel drift."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.workbench.bench.compare.contrasts import Arm, Figure, choose_order, make_block
from unit.bench.compare.rounds import ABBA, BAAB, make_round


def record(
    scheduled_s: float, chunks_s: tuple[float, ...], tokens: int | None, *, ok: bool = True
) -> RequestRecord:
    return RequestRecord(
        index=0,
        task="t",
        scheduled_s=scheduled_s,
        sent_s=scheduled_s + 0.002,
        chunk_times_s=chunks_s,
        finished_s=chunks_s[-1],
        outcome=RequestOutcome.OK if ok else RequestOutcome.TRUNCATED,
        output_tokens=tokens,
        error=None if ok else "cut",
    )


def test_the_figures_of_a_block() -> None:
    """11 and 3 tokens in 2 s; TTFT 0.5 and 1 s; (1.5 + 0.1) s for 12 tokens after the first."""
    records = [record(0.0, (0.5, 2.0), 11), record(0.2, (1.2, 1.3), 3)]
    block = make_block(records, round_index=3, position=1, arm=Arm.B, started_s=7.0)
    assert (block.num_requests, block.num_errors, block.output_tokens) == (2, 0, 14)
    assert block.window_s == 2.0
    assert block.output_tokens_per_s == 7.0
    assert block.ttft_ms == pytest.approx(750)
    assert block.tpot_ms == pytest.approx(1e3 * 1.6 / 12)
    assert block.dispatch_delays_ms == pytest.approx((2.0, 2.0))


def test_failed_requests_are_counted_and_enter_no_figure() -> None:
    records = [record(0.0, (0.5, 1.0), 11), record(0.0, (0.9, 1.0), 500, ok=False)]
    block = make_block(records, round_index=0, position=0, arm=Arm.A, started_s=0.0)
    assert (block.num_errors, block.output_tokens) == (1, 11)
    assert block.ttft_ms == pytest.approx(500)


def test_figures_that_need_usage_are_unknown_without_it() -> None:
    block = make_block(
        [record(0.0, (0.5, 1.0), None)], round_index=0, position=0, arm=Arm.A, started_s=0.0
    )
    assert (block.output_tokens_per_s, block.tpot_ms) == (None, None)
    assert block.ttft_ms == pytest.approx(500)


@pytest.mark.parametrize("order", [ABBA, BAAB])
def test_a_steady_drift_cancels(order: tuple[Arm, ...]) -> None:
    """The machine gets 1 % slower with every block; B is 10 % faster."""
    rates = [100 * 0.99**place * (1.1 if arm is Arm.B else 1.0) for place, arm in enumerate(order)]
    one = make_round(rates, order=order)
    assert one.difference(Figure.OUTPUT_TOKENS_PER_S) == pytest.approx(math.log(1.1))
    assert one.difference(Figure.TPOT_MS) == pytest.approx(-math.log(1.1))


@pytest.mark.parametrize(("rates", "order"), [([100, 50, 50, 80], ABBA), ([50, 100, 80, 50], BAAB)])
def test_the_later_block_of_a_is_compared_with_the_earlier(
    rates: list[float], order: tuple[Arm, ...]
) -> None:
    """100, then 80 tokens/s."""
    one = make_round(rates, order=order)
    assert one.aa_difference(Figure.OUTPUT_TOKENS_PER_S) == pytest.approx(math.log(0.8))
    assert one.aa_difference(Figure.TPOT_MS) == pytest.approx(-math.log(0.8))


def test_an_unknown_figure_makes_the_difference_unknown() -> None:
    one = make_round([100, None, 50, 80])
    assert one.difference(Figure.OUTPUT_TOKENS_PER_S) is None
    assert one.aa_difference(Figure.OUTPUT_TOKENS_PER_S) is not None


def test_a_coin_decides_between_abba_and_baab() -> None:
    coin = random.Random(0)
    counts = Counter(choose_order(coin) for _ in range(200))
    assert set(counts) == {ABBA, BAAB}
    assert 70 <= counts[ABBA] <= 130
