"""A plan recommends drafts where they win by its own figures, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.foundation.capacity.speculation import Acceptance, tokens_per_step
from paceline.foundation.planning.decisions.candidate import Candidate
from paceline.foundation.planning.decisions.choice import with_break_even
from unit.plan.cells import accepting, cells
from unit.plan.planning import LLAMA_70B, plan_json, run_plan

LLAMA_8B = "meta-llama/Meta-Llama-3-8B-Instruct"


def loses_to(plan: Candidate, rival: Candidate) -> bool:
    """By the bill where requests a day are stated, else by the rate of all replicas."""
    if rival.point is None or rival.fleet is None:
        return False
    if plan.point is None or plan.fleet is None:
        return True
    if plan.demand.load.requests_per_day is not None:
        ours, theirs = plan.fleet.usd_per_hour, rival.fleet.usd_per_hour
        return ours is not None and theirs is not None and theirs < ours
    rate = plan.point.output_tokens_per_s * plan.placement.num_replicas
    other = rival.point.output_tokens_per_s * rival.placement.num_replicas
    return other > rate


def test_no_recommendation_loses_by_its_own_table() -> None:
    planned, losing, with_drafts = 0, list[str](), 0
    for cell in cells():
        try:
            plan = cell.plan()
        except ValueError:
            continue  # a format that the hardware lacks, or more replicas than a plan may have
        planned += 1
        with_drafts += plan.demand.drafter.kind != "none"
        losing += [cell.name for rival in cell.rivals() if loses_to(plan, rival)]
    assert planned >= 200
    assert losing == []
    assert 20 <= with_drafts <= planned - 20, "both sides have to win somewhere"


@pytest.mark.parametrize(
    "arguments",
    [
        ("Qwen/Qwen3-8B", "--gpu", "h100", "--num-gpus", "1"),
        (LLAMA_70B, "--gpu", "h100", "--num-gpus", "2", "--quantization", "fp8",
         "--draft", LLAMA_8B),
        ("Qwen/Qwen3-14B", "--gpu", "l40s", "--num-gpus", "1"),
        ("Qwen/Qwen2.5-72B-Instruct", "--gpu", "h100", "--num-gpus", "4"),
        ("Qwen/Qwen3-32B-FP8", "--gpu", "l40s", "--num-gpus", "2"),
    ],
    ids=lambda arguments: arguments[0].rpartition("/")[2],
)  # fmt: skip
def test_the_memory_that_a_draft_takes_is_part_of_its_gain(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """At 0.68 drafts gain in every batch, and lose with all slots in use: there are fewer slots."""
    plan = plan_json(tmp_path, *arguments, "--acceptance", "0.68")
    alone = plan_json(tmp_path, *arguments[: arguments.index("--draft")]
                      if "--draft" in arguments else arguments, "--draft", "none")  # fmt: skip
    without, drafting = plan["candidates"]
    assert drafting["max_concurrent_requests"] < without["max_concurrent_requests"]
    assert drafting["output_tokens_per_s"] < without["output_tokens_per_s"]
    assert plan["operating_point"] == alone["operating_point"]
    assert plan["draft"]["is_planned"] is False
    assert "--speculative-config" not in plan["launch"]["vllm_args"]
    assert 'draft: "none"' in plan["launch"]["paceline_yaml"]


def test_the_same_draft_is_planned_for_a_light_load(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, "Qwen/Qwen3-8B", "--gpu", "h100", "--acceptance", "0.68",
                     "--concurrency", "8")  # fmt: skip
    assert plan["draft"]["is_planned"] is True
    assert plan["operating_point"]["speculation_gain"] > 0
    assert "--speculative-config" in plan["launch"]["vllm_args"]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ((LLAMA_70B, "--gpu", "h100", "--quantization", "awq"), "ngram"),
        (("Qwen/Qwen3-8B", "--gpu", "h100"), "model"),
        (("Qwen/Qwen3-8B", "--gpu", "h100", "--draft", "suffix"), "suffix"),
        (("Qwen/Qwen3-14B", "--gpu", "l40s", "--draft", "Qwen/Qwen3-1.7B"), "model"),
    ],
)
def test_an_unknown_acceptance_is_unknown(
    arguments: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    plan = plan_json(tmp_path, *arguments)
    draft = plan["draft"]
    assert draft["kind"] == kind
    assert draft["acceptance"]["per_token"] is None
    assert draft["acceptance"]["source"].startswith("unknown")
    assert 0 < draft["acceptance"]["break_even_alone"] < 1
    assert {row["draft_length"] for row in plan["performance"]} == {0}
    report = " ".join(run_plan(*arguments).stdout.split())
    assert "acceptance 0.55" not in report
    assert "acceptance unknown: no gain is counted" in report
    assert "Break-even acceptance" in report


def test_drafts_win_above_their_break_even_acceptance_and_lose_below() -> None:
    """Also where a draft model takes slots, and where a load decides by the bill."""
    checked = 0
    for cell in cells():
        known = cell.demand.drafter.acceptance
        if known is None or known.expected.proposed_fraction < 1 or checked == 12:
            continue
        try:
            choice = with_break_even(cell.plan().choice)
        except ValueError:
            continue
        if choice.break_even is None or choice.break_even > 0.95:
            continue
        size = (choice.with_drafts or choice.without).placement.tensor_parallel
        for step, expected in ((0.02, True), (-0.02, False)):
            acceptance = choice.break_even + step
            if acceptance < 0:
                continue
            drafter = accepting(cell.demand.drafter, acceptance)
            at = replace(cell, demand=replace(cell.demand, drafter=drafter))
            candidate = next(
                one
                for one in at.rivals()
                if one.placement.tensor_parallel == size and one.drafter.kind != "none"
            )
            if cell.demand.load.requests_per_day is None:
                assert (
                    candidate.total_tokens_per_s > choice.without.total_tokens_per_s
                ) is expected, cell.name
        checked += 1
    assert checked == 12


@pytest.mark.parametrize("known", [(), ("--acceptance", "0.9")])
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("Qwen/Qwen2.5-72B-Instruct", "--gpu", "h100", "--num-gpus", "8", "--tensor-parallel",
          "8"), "12 attention heads are no multiple"),
        ((LLAMA_70B, "--gpu", "h100", "--num-gpus", "1", "--quantization", "fp8", "--draft",
          LLAMA_8B, "--reserve-gib", "2"), "leaves no memory for a request"),
        (("Qwen/Qwen3-8B", "--gpu", "l4", "--num-gpus", "1", "--draft", "Qwen/Qwen3-1.7B",
          "--reserve-gib", "3"), "leaves no memory for a request"),
    ],
    ids=["heads", "70B", "8B"],
)  # fmt: skip
def test_a_drafter_that_cannot_run_is_not_written(
    arguments: tuple[str, ...], why: str, known: tuple[str, ...], tmp_path: Path
) -> None:
    plan = plan_json(tmp_path, *arguments, *known)
    assert plan["draft"]["is_planned"] is False
    assert plan["launch"]["vllm_args_to_measure_the_acceptance"] is None
    report = " ".join(run_plan(*arguments, *known).stdout.split())
    if not known or "heads" in why:
        assert "cannot be used: " in report
        assert why in report
        assert "Break-even" not in report


def test_gpus_are_planned_with_the_lengths_that_have_graphs(tmp_path: Path) -> None:
    cases = {8: [0, 1, 3, 7], 4: [0, 1, 3], 2: [0, 1], 15: [0, 1, 3, 7, 15]}
    for longest, lengths in cases.items():
        plan = plan_json(tmp_path, "Qwen/Qwen3-32B", "--gpu", "h200", "--acceptance", "0.9",
                         "--concurrency", "1", "--draft-length-max", str(longest))  # fmt: skip
        assert [row["draft_length"] for row in plan["speculation"]["draft_lengths"]] == lengths


def test_a_cpu_may_use_every_length(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, "bundled", "--gpu", "cpu", "--dtype", "float32",
                     "--concurrency", "1")  # fmt: skip
    lengths = [row["draft_length"] for row in plan["speculation"]["draft_lengths"]]
    assert lengths == [*range(9)]


@pytest.mark.parametrize("limit", ["--slo-tpot-ms", "--slo-ttft-ms"])
def test_a_mean_is_not_written_as_a_bound_on_each_chunk(limit: str, tmp_path: Path) -> None:
    """With drafts a chunk has several tokens, so it takes longer than the mean of a token."""
    value = {"--slo-tpot-ms": "30", "--slo-ttft-ms": "1500"}[limit]
    plan = plan_json(tmp_path, "Qwen/Qwen2.5-72B-Instruct", "--gpu", "h100", "--num-gpus", "4",
                     "--acceptance", "0.8", limit, value)  # fmt: skip
    text = plan["launch"]["paceline_yaml"]
    settings = [line for line in text.splitlines() if not line.startswith("#")]
    assert not any("time_per_output_token_ms" in line or line == "slo:" for line in settings)
    assert not any("time_per_output_token" in word for word in plan["launch"]["vllm_args"])
    point = plan["operating_point"]
    if limit == "--slo-tpot-ms":
        chunk_ms = point["tpot_ms"] * tokens_per_step(Acceptance(0.8), point["draft_length"])
        assert point["tpot_ms"] <= 30 < chunk_ms
        assert "is a mean per token" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ("Qwen/Qwen2.5-72B-Instruct", "--gpu", "h100", "--num-gpus", "4"),
        ("Qwen/Qwen3-32B", "--gpu", "a100", "--num-gpus", "1"),
        ("Qwen/Qwen3-32B", "--gpu", "l40s", "--num-gpus", "4", "--slo-tpot-ms", "60"),
        (LLAMA_70B, "--gpu", "h200", "--num-gpus", "2", "--requests-per-day", "1e6"),
        ("Qwen/Qwen3-14B", "--gpu", "h100-pcie", "--num-gpus", "1", "--concurrency", "64"),
    ],
)
def test_advised_weights_do_not_lose_either(arguments: tuple[str, ...], tmp_path: Path) -> None:
    plan = plan_json(tmp_path, *arguments)
    choice = next(one["choice"] for one in plan["advice"] if one["topic"] == "quantization")
    if choice != "none":
        other = next(one for one in plan["alternatives"] if one["quantization"] == choice)
        price = "usd_per_million_output_tokens"
        assert other[price] <= plan["cost"][price]


def test_the_load_decides_by_the_bill(tmp_path: Path) -> None:
    arguments = ("Qwen/Qwen3-32B-FP8", "--gpu", "l40s", "--num-gpus", "2", "--acceptance", "0.68",
                 "--requests-per-day", "3e6", "--slo-tpot-ms", "40")  # fmt: skip
    plan = plan_json(tmp_path, *arguments)
    bills = [one["usd_per_month"] for one in plan["candidates"] if one["usd_per_month"]]
    assert plan["cost"]["usd_per_month"] == min(bills)


def test_the_document_is_json_with_the_choice(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, "Qwen/Qwen3-8B", "--gpu", "h100", "--draft", "none")
    assert [one["name"] for one in plan["candidates"]] == ["without drafts"]
    assert plan["launch"]["vllm_args_to_measure_the_acceptance"] is None
    json.dumps(plan)
