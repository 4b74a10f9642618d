"""The plan states what it assumes of acceptance, and which waits its latencies leave out."""

from __future__ import annotations

from pathlib import Path

from unit.plan.planning import plan_json, run_plan

QWEN_72B = ("Qwen/Qwen2.5-72B-Instruct", "--gpu", "h100", "--num-gpus", "4",
            "--requests-per-day", "2e6", "--slo-tpot-ms", "40")  # fmt: skip
WITHOUT_PROMPTS = "without waiting for other prompts"


def test_the_bill_is_shown_over_the_range_of_acceptance(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, *QWEN_72B)
    bills = {bill["case"]: bill for bill in plan["acceptance_bills"]}
    assert list(bills) == ["low", "expected", "high", "without speculation"]
    assert [bill["acceptance"] for bill in bills.values()] == [0.45, 0.68, 0.82, None]
    assert bills["expected"]["usd_per_month"] == plan["cost"]["usd_per_month"]
    assert bills["low"]["usd_per_month"] > bills["high"]["usd_per_month"]
    rates = [bill["output_tokens_per_s"] for bill in bills.values()]
    assert rates[3] < rates[0] < rates[1] < rates[2]


def test_the_report_shows_the_bills() -> None:
    report = run_plan(*QWEN_72B).stdout
    assert "Bill by acceptance" in report
    assert "low 0.45" in report
    assert "without speculation" in report


def test_a_known_acceptance_has_one_bill_beside_that_without_speculation(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, *QWEN_72B, "--acceptance", "0.7")
    cases = [(bill["case"], bill["acceptance"]) for bill in plan["acceptance_bills"]]
    assert cases == [("expected", 0.7), ("without speculation", None)]


def test_both_waits_state_what_they_leave_out(tmp_path: Path) -> None:
    report = " ".join(run_plan(*QWEN_72B).stdout.split())
    assert f"ms {WITHOUT_PROMPTS}, time per output token" in report
    assert f"wait for a slot at most 0.00 s, {WITHOUT_PROMPTS}" in report
    plan = plan_json(tmp_path, *QWEN_72B)
    assert any(WITHOUT_PROMPTS in text for text in plan["assumptions"])
    assert plan["operating_point"]["ttft_includes_prompt_queue"] is False
    assert plan["fleet"]["wait_includes_prompt_queue"] is False
