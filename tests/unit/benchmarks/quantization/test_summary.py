"""Figures of the benchmark of number formats, worked out from made-up records."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.quantization.summary import (
    choose_baseline,
    choose_best,
    summarize,
    summarize_products,
    summarize_quality,
    summarize_speed,
)
from benchmarks.quantization.table import render_model

from .records import load, turn


def test_the_baseline_is_the_faster_unquantized_format() -> None:
    turns = [turn("float32", 0, 2.0), turn("bfloat16", 0, 4.0), turn("w8a8", 0, 1.0)]
    assert choose_baseline(turns) == "float32"
    with pytest.raises(ValueError, match="no turn of an unquantized"):
        choose_baseline([turn("w8a8", 0, 1.0)])


def test_ratios_are_of_turns_in_one_round_of_one_batch() -> None:
    turns = [
        *(turn("float32", number, seconds) for number, seconds in enumerate([2.0, 4.0, 6.0])),
        *(turn("w8a8", number, seconds) for number, seconds in enumerate([1.0, 1.0, 4.0])),
        turn("float32", 0, 8.0, batch=1),
        turn("awq", 0, 2.0, batch=1, steps=5),
    ]
    speed = summarize_speed(turns, "float32")
    assert (speed["w8a8"]["ratio_min"], speed["w8a8"]["ratio"]) == (1.5, 2.0)
    assert (speed["w8a8"]["ratio_max"], speed["w8a8"]["n"]) == (4.0, 3)
    assert speed["w8a8"]["tokens_per_s"] == 10.0
    assert speed["awq"]["ratio"] == 4.0
    assert speed["awq"]["tokens_per_step"] == 2.0
    assert speed["awq"]["first_token_ms"] == pytest.approx(200.0)
    assert choose_best(speed) == "awq"


def test_a_variant_without_a_turn_beside_the_baseline_has_no_ratio() -> None:
    speed = summarize_speed([turn("float32", 0, 2.0), turn("w8a8", 1, 1.0)], "float32")
    assert speed["w8a8"]["ratio"] is None
    assert choose_best(speed) is None


def test_the_best_format_quantizes_weights() -> None:
    turns = [turn("float32", 0, 2.0), turn("kv-fp8", 0, 1.0), turn("fp8", 0, 4.0)]
    assert choose_best(summarize_speed(turns, "float32")) == "fp8"


def test_the_product_is_measured_and_compared_with_the_two_ratios() -> None:
    turns = [
        turn("float32", 0, 12.0),
        turn("w8a8", 0, 6.0),
        turn("float32+ngram", 0, 4.0, steps=5),
        turn("w8a8+ngram", 0, 3.0, steps=4),
    ]
    [row] = summarize_products(turns, "float32", "w8a8", ("ngram", "draft_model"))
    assert (row["format_ratio"], row["speculation_ratio"], row["both_ratio"]) == (2.0, 3.0, 4.0)
    assert row["kept"] == pytest.approx(2 / 3)
    assert (row["tokens_per_step"], row["both_tokens_per_step"]) == (2.0, 2.5)


def test_quality_is_compared_with_the_baseline() -> None:
    found = summarize_quality(load("w8a8", nats=8.0, answer=(1, 2, 9, 4)), load("float32"))
    assert found["perplexity"] == pytest.approx(2.718281828**2)
    assert found["perplexity_ratio"] == pytest.approx(2.718281828)
    assert found["first_choice"] == 0.75
    assert found["greedy_same"] == 0.5


def document(**given: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"loads": [], "turns": [], "products": [], "batches": []}
    return {**empty, "settings": {"drafters": ["ngram"]}, **given}


def test_a_model_of_which_nothing_was_timed_has_its_quality() -> None:
    loads = [load("float32"), load("w8a8", nats=4.0)]
    summary = summarize(document(loads=loads), "m")
    assert summary["baseline"] is None
    assert summary["rows"]["w8a8"]["perplexity_ratio"] == 1.0


def test_the_tables_have_refusals_disagreements_and_products() -> None:
    refused = {
        **load("nvfp4"), "outcome": {"error": "ValueError: no\nkernel", "log": ""},
        "gate": {"refusal": "no kernel for it"},
    }  # fmt: skip
    del refused["likelihoods"]
    wrong = {**load("awq"), "disagreement": "runs Other"}
    turns = [turn(name, 0, 2.0) for name in ("float32", "control")]
    turns += [turn("w8a8", 0, 1.0), turn("awq", 0, 4.0)]
    products = [
        turn("float32", 0, 4.0), turn("w8a8", 0, 2.0), turn("float32+ngram", 0, 2.0),
        turn("w8a8+ngram", 0, 1.0),
    ]  # fmt: skip
    loads = [load("float32"), load("control"), load("w8a8"), wrong, refused]
    batches = [{"model": "m", "kind": "products", "pair": ["float32", "w8a8"]}]
    given = document(loads=loads, turns=turns, products=products, batches=batches)
    summary = summarize(given, "m")
    assert summary["disagreements"] == {"awq": "runs Other"}
    assert summary["control_ratio"]["ratio"] == 1.0
    operators = [{"name": "aten::mm", "calls": 7, "self_s": 1.0}]
    profile = {"variant": "w8a8", "operators_s": 4.0, "operators": operators}
    failures = [{"variant": "kv-fp8", "kind": "turns", "error": "it ended"}]
    made = [{"scheme": "gptq", "backend": "own", "error": "out of memory"}]
    shown = render_model("m", summary, made, loads, [profile], failures, is_compiled=True)
    lines = shown.splitlines()
    assert "- kv-fp8, turns: it ended" in lines
    assert lines[0] == "## m, compiled: baseline float32, best w8a8"
    eager = render_model("m", summary, made, loads, [profile], failures, is_compiled=False)
    assert eager.startswith("## m, eager: ")
    assert (
        "| w8a8 | float32 | K in 3 layers | 2.0 | 5,000 | 10.0 | 2.00 (2.00 to 2.00, n = 1) "
        "| 2.718 | 75.0% | 100.0% |"
    ) in lines
    assert "- nvfp4: ValueError: no kernel" in lines
    assert "- nvfp4: no kernel for it" in lines
    assert "- awq: runs Other" in lines
    assert "- gptq, own: out of memory" in lines
    product = "| w8a8, ngram | 2.00 | 2.00 | 4.00 (4.00 to 4.00, n = 1) | 1.00 | 1.00, 1.00 |"
    assert product in lines
    assert "| w8a8 | `aten::mm` | 7 | 25.0% |" in lines


def test_products_without_their_baseline_have_no_ratio() -> None:
    """It ended before its first turn."""
    turns = [turn("float32", 0, 2.0), turn("w8a8", 0, 1.0)]
    products = [turn(name, 0, 1.0) for name in ("w8a8", "float32+ngram", "w8a8+ngram")]
    batches = [{"model": "m", "kind": "products", "pair": ["float32", "w8a8"]}]
    given = document(loads=[load("float32")], turns=turns, products=products, batches=batches)
    assert summarize(given, "m")["products"] == []
