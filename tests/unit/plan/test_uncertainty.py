"""The plan states what it assumes of acceptance, and counts the waits in its latencies."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.plan.planning import plan_json, run_plan

QWEN_72B = ("Qwen/Qwen2.5-72B-Instruct", "--gpu", "h100", "--num-gpus", "4",
            "--requests-per-day", "2e6", "--slo-tpot-ms", "40")  # fmt: skip


def test_bills_of_an_unknown_acceptance_say_if(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, *QWEN_72B)
    bills = plan["acceptance_bills"]
    assert [(bill["case"], bill["acceptance"]) for bill in bills] == [
        ("if", 0.45), ("if", 0.68), ("if", 0.82), ("without speculation", None),
    ]  # fmt: skip
    assert bills[-1]["usd_per_month"] == plan["cost"]["usd_per_month"]
    assert bills[0]["usd_per_month"] > bills[2]["usd_per_month"]
    rates = [bill["output_tokens_per_s"] for bill in bills]
    assert rates[3] < rates[0] < rates[1] < rates[2]


def test_the_bill_is_shown_over_the_range_of_a_measured_acceptance(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, "bundled", "--gpu", "cpu")
    cases = [(bill["case"], bill["acceptance"]) for bill in plan["acceptance_bills"]]
    assert cases == [
        ("low", 0.65), ("expected", 0.96), ("high", 0.97), ("without speculation", None),
    ]  # fmt: skip


def test_the_report_shows_the_bills() -> None:
    report = run_plan(*QWEN_72B).stdout
    assert "Bill by acceptance" in report
    assert "if 0.45" in report
    assert "without speculation" in report


def test_a_known_acceptance_has_one_bill_beside_that_without_speculation(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, *QWEN_72B, "--acceptance", "0.7")
    cases = [(bill["case"], bill["acceptance"]) for bill in plan["acceptance_bills"]]
    assert cases == [("expected", 0.7), ("without speculation", None)]


def test_the_report_prints_the_wait_for_prompts_and_what_it_assumes(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, *QWEN_72B)
    point, fleet = plan["operating_point"], plan["fleet"]
    lines = run_plan(*QWEN_72B).stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("With all"))
    text = " ".join(" ".join(lines[start : start + 2]).split())
    assert f"95 % of the requests get the first token within {point['ttft_ms']:,.0f} ms" in text
    assert f"{point['prompt_wait_ms']:,.0f} ms for the prompts of others" in text
    report = " ".join(" ".join(lines).split())
    assert f"{fleet['prompt_wait_s']:.2f} s for other prompts" in report
    assert any("waits for prompts: requests arrive at random" in one for one in plan["assumptions"])


def test_the_time_to_first_token_is_the_prompt_and_its_waits(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, *QWEN_72B)
    for row in plan["performance"]:
        assert row["ttft_ms"] == pytest.approx(row["prefill_ms"] + row["prompt_wait_ms"])
    alone, *others = plan["performance"]
    assert alone["prompt_wait_ms"] == 0
    waits = [row["prompt_wait_ms"] for row in others]
    assert waits == sorted(waits)
    fleet, point = plan["fleet"], plan["operating_point"]
    waits_s = fleet["slot_wait_s"] + fleet["prompt_wait_s"]
    assert fleet["ttft_s"] == pytest.approx(point["prefill_ms"] / 1e3 + waits_s)
    assert fleet["prompt_wait_s"] < point["prompt_wait_ms"] / 1e3


def test_a_limit_on_the_first_token_counts_the_wait_for_prompts(tmp_path: Path) -> None:
    """A prompt alone takes some 75 ms; in a full batch nearly all of the time is a wait."""
    free = plan_json(tmp_path, *QWEN_72B, "--acceptance", "0.68")
    assert free["operating_point"]["ttft_ms"] > 400
    bound = plan_json(tmp_path, *QWEN_72B, "--acceptance", "0.68", "--slo-ttft-ms", "300")
    assert bound["operating_point"]["ttft_ms"] <= 300
    assert bound["operating_point"]["num_requests"] < free["operating_point"]["num_requests"]
    assert bound["fleet"]["replicas"] > free["fleet"]["replicas"]
    assert bound["fleet"]["ttft_s"] <= 0.3


def test_a_higher_percentile_needs_more_replicas(tmp_path: Path) -> None:
    limit = ("--slo-ttft-ms", "300")
    of_95 = plan_json(tmp_path, *QWEN_72B, *limit)
    of_99 = plan_json(tmp_path, *QWEN_72B, *limit, "--slo-percentile", "99")
    assert of_99["load"]["slo_percentile"] == 99
    assert of_99["fleet"]["replicas"] > of_95["fleet"]["replicas"]
    assert "99 % of the requests get the first token" in run_plan(
        *QWEN_72B, *limit, "--slo-percentile", "99"
    ).stdout.replace("\n    ", " ")


def test_batches_whose_prompts_find_no_room_are_not_planned(tmp_path: Path) -> None:
    """Answers of two tokens: of 2048 tokens a step, long prompts leave no room for many."""
    plan = plan_json(tmp_path, "Qwen/Qwen2.5-7B-Instruct", "--gpu", "l40s", "--draft", "none",
                     "--prompt-tokens", "4000", "--output-tokens", "2")  # fmt: skip
    assert plan["performance"][-1]["ttft_ms"] is None
    assert plan["operating_point"]["num_requests"] < plan["performance"][-1]["num_requests"]
