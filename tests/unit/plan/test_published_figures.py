"""docs/published-figures.md computes what published figures of a 70B model can mean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paceline.foundation.planning.decisions.candidate import plan_candidate
from paceline.foundation.planning.sources.drafters import choose_drafter
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.planning.values import Load, Placement, Slo
from unit.plan.cells import CATALOGUE, MACHINE, demand_of
from unit.plan.planning import plan_json, run_plan
from unit.plan.step_by_step import GIB, LLAMA_8B, LLAMA_70B, LLAMA_70B_AWQ, Model

PAGE = " ".join((Path(__file__).parents[3] / "docs" / "published-figures.md").read_text().split())
H100 = CATALOGUE.find("h100", MACHINE, None)
PEAK_BYTES_PER_S, PEAK_FLOPS, PEAK_FP8_FLOPS = 3.35e12, 989e12, 1979e12
LLAMA_8B_AWQ = Model(32, 4096, 14336, 32, 8, 128256, positions=8192, form="awq")
PARAMS = 80 * LLAMA_70B.layer_params(1) + LLAMA_70B.table(1)
"""Multiplied for each token."""


def said(text: str) -> None:
    assert text in PAGE, text


def test_fp8_with_an_int4_draft_leaves_nothing_for_the_cache_of_one_h100() -> None:
    target = find_model("Llama-3-70B", CATALOGUE, quantization="fp8")
    drafter = choose_drafter(
        "Llama-3-8B", target.name, CATALOGUE, dtype="bfloat16", acceptance=0.68,
        quantization="awq",
    )  # fmt: skip
    demand = demand_of(target, drafter, Load(), Slo())
    budget = plan_candidate(demand, H100, Placement(H100.hardware, 1, 1)).memory.budget
    assert budget.kv_cache < 0
    said(f"{budget.weights / GIB:.1f} GiB")
    said(f"{budget.draft_weights / GIB:.1f} GiB")
    said(f"{int(budget.total * budget.utilization) / GIB:.1f} GiB")
    together = budget.weights + budget.draft_weights
    assert together > budget.total * budget.utilization
    said(f"{together / GIB:.1f} GiB")
    working = budget.activations + budget.graphs + budget.runtime
    said(f"{working / GIB:.1f} GiB")
    said(f"{-budget.kv_cache / GIB:.1f} GiB too much")
    token = LLAMA_70B.kv_bytes(1) + LLAMA_8B.kv_bytes(1)
    whole = (budget.total - together - working) // token
    said(f"{whole:,} tokens")
    refused = run_plan("Llama-3-70B", "--gpu", "h100", "--num-gpus", "1", "--quantization", "fp8",
                       "--draft", "Llama-3-8B", "--draft-quantization", "awq",
                       "--acceptance", "0.68")  # fmt: skip
    assert refused.exit_code == 1
    assert "does not fit on 1 x h100" in refused.stderr


def best_ratio(acceptance: float) -> tuple[float, int]:
    """Tokens a step over the bytes read a step, at the best length, without any other cost."""
    cost = LLAMA_8B_AWQ.read_bytes(1) / LLAMA_70B.read_bytes(1)
    return max(
        (sum(acceptance**i for i in range(length + 1)) / (1 + length * cost), length)
        for length in range(1, 17)
    )


def test_a_draft_of_a_tenth_of_the_bytes_bounds_the_gain() -> None:
    cost = LLAMA_8B_AWQ.read_bytes(1) / LLAMA_70B.read_bytes(1)
    said(f"{100 * cost:.1f} % of the bytes")
    ratio, length = best_ratio(0.68)
    assert ratio < 2.6
    said(f"at most {ratio:.1f} times, with {length} drafts")
    said(f"{1 / (1 - 0.68):.1f} tokens a step")
    needed = next(a / 1000 for a in range(1000) if best_ratio(a / 1000)[0] >= 2.6)
    said(f"from {needed:.2f} a token on")


def test_little_s_law_gives_the_requests_in_flight() -> None:
    for rate, seconds in ((450, 0.085), (1180, 0.022), (12, 2.1), (89, 0.4)):
        said(f"{rate * seconds:.0f} requests")


def test_a_price_falls_as_the_tokens_rise() -> None:
    said(f"${2.80 / 2.6:.2f}")
    said(f"${2.80 / 4.3:.2f}")
    rent = H100.offers[0].usd_per_hour
    said(f"${rent:.2f}")
    for price in (2.80, 0.35):
        said(f"{rent / 3600 / price * 1e6:,.0f} tokens/s")


@pytest.mark.parametrize(("scheme", "prompt", "answer"), [("awq", 1024, 256), ("awq", 100, 256)])
def test_what_one_h100_gives_is_planned(
    scheme: str, prompt: int, answer: int, tmp_path: Path
) -> None:
    plan = plan_json(tmp_path, "Llama-3-70B", "--gpu", "h100", "--num-gpus", "1",
                     "--quantization", scheme, "--prompt-tokens", str(prompt),
                     "--output-tokens", str(answer))  # fmt: skip
    said(f"{plan['operating_point']['output_tokens_per_s']:,.0f} tokens/s with prompts of {prompt}")


def test_a_prompt_takes_its_arithmetic() -> None:
    said(f"{0.045 * PEAK_FP8_FLOPS / (2 * PARAMS):.0f} tokens at the peak")
    said(f"{0.045 * 0.6 * PEAK_FP8_FLOPS / (2 * PARAMS):.0f} tokens at 0.6 of it")


def test_one_stream_reads_all_weights_for_each_step() -> None:
    for model in (LLAMA_70B, LLAMA_70B_AWQ):
        said(f"{PEAK_BYTES_PER_S / model.read_bytes(1):.0f} steps/s")
    said(f"{120 / (PEAK_BYTES_PER_S / LLAMA_70B_AWQ.read_bytes(1)):.1f} tokens a step")


def test_every_row_of_the_table_of_claims_has_a_verdict() -> None:
    text = (Path(__file__).parents[3] / "docs" / "published-figures.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)[2:]
    assert len(rows) >= 9
    verdicts = ("not", "possible", "depends")
    assert all(row[3].startswith(verdicts) for row in rows)
