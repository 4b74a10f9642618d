"""The figures that documents take from raw results, from rates with known ratios."""

from __future__ import annotations

import pytest

from benchmarks.claims.readers import interleaved_figures
from unit.benchmarks.governor.interleaved.documents import document


def test_the_figures_of_an_interleaved_trace_are_percentages() -> None:
    """Two phases of 100 tokens. K=1 is best in both; goodput reaches 95 % of it in the first."""
    rates = {
        "none": [[100.0, 50.0]] * 2,
        "none#again": [[102.0, 51.0]] * 2,
        "K=1": [[200.0, 60.0]] * 2,
        "goodput": [[190.0, 60.0], [180.0, 60.0]],
    }
    planned = {"goodput": [1, 2, 5, 5]}
    figures = interleaved_figures(document(rates, ["1-easy", "16-hard"], planned))
    assert figures["worst_phase"] == "1-easy"
    assert figures["worst"].mean == pytest.approx(-7.5)
    assert (figures["worst"].lowest, figures["worst"].highest) == pytest.approx((-10, -5))
    assert figures["worst"].n == 2
    assert figures["floors"]["16-hard"].mean == pytest.approx(0)
    assert figures["control"].mean == pytest.approx(2)
    assert figures["oracle_over_single"].mean == pytest.approx(0)
    assert figures["oracle"].mean == pytest.approx(100 + figures["single"].mean)
    assert figures["rates"]["none"].mean == pytest.approx(200 / (100 / 100 + 100 / 50))
    assert figures["none"].mean == pytest.approx(
        100 * ((3 / (100 / 190 + 100 / 60) + 3 / (100 / 180 + 100 / 60)) / 2 - 1)
    )
    assert figures["near"] == {"1-easy": 50, "16-hard": 50}
