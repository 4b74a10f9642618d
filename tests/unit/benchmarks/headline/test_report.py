"""The report: rows, verdicts, reasons, and claims that a page can be checked with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.claims.checking import find_problems
from benchmarks.headline.cells import DEFAULT_CELLS
from benchmarks.headline.measured import read_measured
from benchmarks.headline.published import PUBLISHED
from benchmarks.headline.report import render_report
from benchmarks.headline.tables import TIMES, all_claims, published_texts, verdict

from .documents import document

NAMES = list(DEFAULT_CELLS)
NUM = len(NAMES)
QUANTIZED = {
    "vllm+layout+w8a8": [[100.0] * NUM, [100.0] * NUM],
    "vllm+layout+w8a8+K=4": [[110.0] * NUM, [110.0] * NUM],
    "paceline+w8a8": [[160.0] * NUM, [120.0] * NUM],
}
RATES: dict[str, list[list[float | None]]] = {
    "naive": [[None if name.endswith("-64") else 10.0 for name in NAMES]] * 2,
    "llama.cpp": [[64.0] * NUM, [60.0] * NUM],
    "vllm": [[40.0] * NUM, [40.0] * NUM],
    "vllm#again": [[41.0] * NUM, [39.0] * NUM],
    "vllm+layout": [[50.0] * NUM, [50.0] * NUM],
    "vllm+layout#again": [[50.0] * NUM, [55.0] * NUM],
    "vllm+layout+K=2": [[60.0] * NUM, [60.0] * NUM],
    "vllm+layout+K=4": [[70.0] * NUM, [70.0] * NUM],
    "paceline": [[80.0] * NUM, [120.0] * NUM],
}
DRAFTED = {"paceline": (100, 70), "vllm+layout+K=2": (10, 5)}


@pytest.fixture
def result() -> dict[str, Any]:
    return document(RATES, NAMES, drafted=DRAFTED)


def rendered(document: dict[str, Any]) -> str:
    """The report with an x for the multiplication sign."""
    return render_report(document).replace(TIMES, "x")


def test_ratios_are_those_of_each_repeat(result: dict[str, Any]) -> None:
    """80/40 and 120/40 over plain vLLM, 80/70 and 120/70 over the best static length."""
    report = rendered(result)
    assert "| `paceline` / `vllm` | 2.50x (2.00 to 3.00) |" in report
    assert "| `paceline` / best static length | 1.43x (1.14 to 1.71) |" in report
    assert "| `vllm+layout+K=2` / `vllm+layout` | 1.20x (1.20 to 1.20) |" in report
    assert "| `vllm#again` / `vllm` | 1.000x (0.975 to 1.025) |" in report
    assert "| `vllm+layout#again` / `vllm+layout` | 1.050x (1.000 to 1.100) |" in report
    assert "| `paceline` / `llama.cpp` | 1.62x (1.25 to 2.00) |" in report
    assert "by repeat is `vllm+layout+K=4`, `vllm+layout+K=4`, each chosen on the other" in report


def test_every_published_figure_has_a_row_with_its_verdict(result: dict[str, Any]) -> None:
    """Tokens/s over plain vLLM 2 and 3 against 2.6; over naive serving 8 and 12 against 7.4."""
    report = rendered(result)
    assert "2.6x | 2.50x (2.00 to 3.00), reached in some repeats |" in report
    assert "7.4x | 10.00x (8.00 to 12.00), reached |" in report
    assert "0.68 | 0.70 (0.70 to 0.70), reached |" in report
    for text in published_texts():
        assert text.replace(TIMES, "x") in report
    assert "No server of this run quantizes." in report


def test_the_limit_stands_beside_the_rate_that_it_limits(result: dict[str, Any]) -> None:
    """200 MB at 20 and 24 GB/s: 100 and 120 tokens/s; Paceline gives 80 and 120."""
    row = next(line for line in rendered(result).splitlines() if line.startswith("| `paceline` |"))
    assert "| 110 (100 to 120) | 0.90 (0.80 to 1.00) |" in row


def test_a_server_that_does_not_run_a_cell_has_a_dash_there(result: dict[str, Any]) -> None:
    row = next(line for line in rendered(result).splitlines() if line.startswith("| `naive` / "))
    assert row.count("\N{EN DASH}") == 2
    assert row.count("0.25x (0.25 to 0.25)") == 10


def test_the_verdict_on_quantized_weights_is_on_the_page(result: dict[str, Any]) -> None:
    result["quality"]["w8a8"] = {
        "verdict": "undecided", "reasons": ["too few prompts."], "fidelity": None,
        "made_by": "paceline quantize x", "judged_by": "paceline quality x",
    }  # fmt: skip
    report = rendered(result)
    assert "- `w8a8`: **undecided**. too few prompts. Made by `paceline quantize x`" in report
    assert "No server of this run quantizes." not in report


def test_a_row_that_falls_short_says_why_and_what_would_close_it(result: dict[str, Any]) -> None:
    """The first token comes after 100 ms from every server, so no ratio of it reaches 2.2."""
    report = rendered(result)
    (row,) = (one for one in PUBLISHED if one.target == 2.2)
    short = report.split("## Where it falls short")[1].split("\n## ")[0]
    assert f"**{row.what}** (`paceline`). Likely cause: {row.why}" in short
    assert row.closes in short
    reached = next(one for one in PUBLISHED if one.target == 7.4)
    assert reached.what not in short


def test_verdicts() -> None:
    row = next(one for one in PUBLISHED if one.target == 2.6)
    assert verdict(row, np.array([2.6, 3.0])) == "reached"
    assert verdict(row, np.array([2.5, 2.6])) == "reached in some repeats"
    assert verdict(row, np.array([2.5, 2.5])) == "short"
    assert verdict(row, None) == "not measured"


def test_the_worst_cell_decides_whether_speculation_ever_loses() -> None:
    """0.9 in the cell of sampled code, 2.0 elsewhere."""
    cells = ["chat-1", "chat-4", "chat-16", "code-sampled-4"]
    rates = {"vllm": [[10.0] * 4], "vllm+layout": [[10.0] * 4]}
    rates["paceline"] = [[20.0, 20.0, 20.0, 9.0]]
    report = rendered(document(rates, cells))
    assert "0.98x | 0.90x (0.90 to 0.90), short |" in report


def test_the_published_rows_are_measured_for_quantized_paceline_too() -> None:
    """160/40 and 120/40 over plain vLLM; over the layout with the same weights 1.6 and 1.2."""
    drafted = {"paceline": (100, 70), "paceline+w8a8": (100, 60)}
    report = rendered(document({**RATES, **QUANTIZED}, NAMES, drafted=drafted))
    assert "| `paceline` (n = 2) | `paceline+w8a8` (n = 2) |" in report
    tokens = "2.6x | 2.50x (2.00 to 3.00), reached in some repeats | 3.50x (3.00 to 4.00), reached"
    assert f"{tokens} |" in report
    assert "0.68 | 0.70 (0.70 to 0.70), reached | 0.60 (0.60 to 0.60), short |" in report
    assert "0.98x | 2.00x (1.60 to 2.40), reached | 1.40x (1.20 to 1.60), reached |" in report
    assert "cells** (`paceline+w8a8`). Likely cause: a drafter" in report


def test_quantized_arms_are_compared_with_the_same_arms_and_the_same_weights() -> None:
    """Paceline 160/80 and 120/120, the layout 100/50, Paceline over the layout 160/100, 120/100."""
    report = rendered(document({**RATES, **QUANTIZED}, NAMES))
    assert "| `paceline+w8a8` / `paceline` | 1.50x (1.00 to 2.00) |" in report
    assert "| `paceline+w8a8` / `vllm` | 3.50x (3.00 to 4.00) |" in report
    assert "| `vllm+layout+w8a8` / `vllm+layout` | 2.00x (2.00 to 2.00) |" in report
    assert "| `paceline+w8a8` / `vllm+layout+w8a8` | 1.40x (1.20 to 1.60) |" in report
    assert "| `vllm+layout+w8a8+K=4` / `vllm+layout+w8a8` | 1.10x (1.10 to 1.10) |" in report
    assert "| `paceline` / `vllm+layout+w8a8` |" not in report


def test_quantized_weights_are_no_advice_to_a_server_that_has_them() -> None:
    """6 times naive serving instead of 7.4 for Paceline; 9 times, and then 6, with INT8."""
    rates = {"naive": [[10.0]], "vllm": [[40.0]], "paceline": [[60.0]]}
    advice = "memory bandwidth, and quantized weights."
    assert advice in rendered(document({**rates, "paceline+w8a8": [[90.0]]}, ["chat-16"]))
    report = rendered(document({**rates, "paceline+w8a8": [[60.0]]}, ["chat-16"]))
    assert advice not in report
    assert "(`paceline`, `paceline+w8a8`). Likely cause: two cores" in report


@pytest.mark.parametrize("arms", [RATES, {**RATES, **QUANTIZED}])
def test_a_page_that_repeats_the_report_is_covered_by_its_claims(
    arms: dict[str, list[list[float | None]]],
) -> None:
    drafted = dict.fromkeys(arms, (100, 70))
    result = document(arms, NAMES, drafted=drafted)
    link = "[raw](../benchmarks/results/x.json)"
    tables = [line for line in render_report(result).splitlines() if line.startswith("| ")]
    rows = [line for line in tables if "(" in line and "to" in line and "n = " not in line]
    page = "\n".join(["# Page", link, *rows])
    claims = list(all_claims(result, read_measured(result)))
    texts = {"published": published_texts()}
    assert find_problems(page, claims, texts) == []
    wrong = page.replace("(2.00 to 3.00)", "(2.01 to 3.00)")
    assert any("does not print" in problem for problem in find_problems(wrong, claims, texts))


def test_what_was_not_measured_is_said() -> None:
    report = rendered(document({"vllm": [[10.0]], "paceline": [[20.0]]}, ["chat-1"]))
    assert "| 2.6x | not measured |" in report
    assert "No static length was measured." in report
    assert "No measured row falls short." in report


def test_one_repeat_is_said_not_to_be_cross_fitted() -> None:
    rates = {"vllm": [[10.0]], "vllm+layout+K=2": [[20.0]]}
    assert "One repeat only" in rendered(document(rates, ["chat-1"]))


def test_failed_requests_and_few_requests_are_named(result: dict[str, Any]) -> None:
    result["runs"][0]["num_errors"] = 3
    report = rendered(result)
    assert "**Failed requests, in no figure: `naive` 3.**" in report
    assert "P99 comes from 2 requests per repeat" in report


def test_without_a_complete_repeat_there_is_no_comparison(result: dict[str, Any]) -> None:
    result["runs"] = result["runs"][:1]
    assert "No comparison: no repeat is complete" in rendered(result)
