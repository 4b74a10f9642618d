"""The verdict follows from what the checks found; known issues and the smallest request too."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from paceline.workbench.audit.checks.acceptance import AcceptanceResult
from paceline.workbench.audit.checks.control import ControlResult
from paceline.workbench.audit.checks.drafting import DraftUse
from paceline.workbench.audit.checks.features import FeatureResult, FeatureResults
from paceline.workbench.audit.checks.greedy import GreedyResult, WrongToken
from paceline.workbench.audit.checks.sampled import SampledResult
from paceline.workbench.audit.known_issues import (
    OPENVINO_LATE_REJECTION,
    TENSORRT_STALE_DRAFT,
    VLLM_CPU,
    known_issues,
)
from paceline.workbench.audit.server.server import Support
from paceline.workbench.audit.smallest import smallest_failing_request
from paceline.workbench.audit.statistics.bets import NAMES, Batch
from paceline.workbench.audit.statistics.evidence import ALONG, Evidence, Observed
from paceline.workbench.audit.statistics.greedy import Deviation
from paceline.workbench.audit.values import Sample, SamplingCase
from paceline.workbench.audit.verdict import Decision, Verdict, decide

SUPPORT = Support("m", "vllm", "0.32.0", True, 20, True, True, True, True, True)
STALE = AcceptanceResult([2.0, 2.1, 1.9], [0.1, 0.2, 0.1])
FIRST = Deviation(0, 5, 9, 0.7)
WRONG = WrongToken("a long prompt", (1, 2), (5, 6, 7), Deviation(1, 6, 9, 0.7))


def greedy(*wrong: WrongToken, without_drafts: bool = False) -> GreedyResult:
    return GreedyResult(
        num_tokens=100,
        wrong=list(wrong),
        wrong_without_drafts=list(wrong) if without_drafts else [],
        number_format="float32",
        is_finished=True,
    )


def sampled(share: float = 0.5, *, first_share: float = 0.5, bias: float = 0.1) -> SampledResult:
    """400 first and 400 drafted tokens, of two equally likely ones; `share` are the one.

    As many tokens were drawn at the places of the drafted ones, and are right.
    """
    evidence = Evidence()
    for is_drafted, of_first in ((False, first_share), (True, share)):
        index = np.array([0 if n % 400 < of_first * 400 else 1 for n in range(400)])
        index = np.random.default_rng(0).permutation(index)
        numbers = tuple((is_drafted, n) for n in range(400))
        batch = Batch(np.full((400, 2), 0.5), index, np.full(400, 2), {})
        evidence.add(Observed(batch, ("top-k",) * 400, (is_drafted,) * 400, numbers, numbers))
    case = SamplingCase("top-k", top_k=2)
    samples = [Sample(0, case, (5, 6)), Sample(0, case, (5, 7)), Sample(0, case, (8, 6))]
    return SampledResult(
        evidence,
        (case,),
        samples,
        ["text"],
        [(1, 2)],
        bias=bias,
        num_samples=400,
        control=ControlResult(400, -6.0, is_finished=True),
    )


def with_noise(noise_nats: float) -> SampledResult:
    result = replace(sampled(), bias=None)
    result.evidence.noise_nats = noise_nats
    return result


def decided(**given: Any) -> Decision:
    parts = {
        "greedy": greedy(),
        "sampled": sampled(),
        "features": FeatureResults(),
        "acceptance": AcceptanceResult(),
        "target_bias": 0.2,
        "saw_drafts": True,
    }
    return decide(**(parts | given))


def test_nothing_found_with_enough_power_is_lossless() -> None:
    decision = decided()
    assert decision.verdict is Verdict.LOSSLESS
    assert "a bias of 10%" in decision.reasons[0]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"greedy": greedy(WRONG)}, "1 of 100 greedy tokens are not the most likely ones"),
        ({"sampled": sampled(0.8)}, "drawn for 80.0%"),
        (
            {"features": FeatureResults([FeatureResult("stop", "wrong", "cut late")])},
            "stop: cut late",
        ),
        ({"sampled": replace(sampled(), num_too_long=2)}, "more tokens than max_tokens"),
    ],
)
def test_every_kind_of_fault_is_lossy(given: dict[str, Any], reason: str) -> None:
    decision = decided(**given)
    assert decision.verdict is Verdict.LOSSY
    assert reason in " ".join(decision.reasons)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"sampled": sampled(bias=0.3)}, "not yet 20%"),
        ({"error": "interrupted"}, "interrupted"),
        ({"greedy": GreedyResult()}, "the greedy answers were not judged"),
        # First tokens are never drafted: the claim itself is wrong.
        ({"sampled": sampled(0.8, first_share=0.8)}, "never drafted"),
        (
            {"sampled": replace(sampled(0.8), control=ControlResult(64, 5.0, is_finished=True))},
            "never drafted, do not follow it either",
        ),
        ({"sampled": replace(sampled(0.8), control=ControlResult(64))}, "was not found out"),
        ({"sampled": replace(sampled(), drafting=DraftUse(100, 0.0))}, "no drafts were seen"),
        ({"sampled": replace(sampled(), drafting=DraftUse(100, 19.0))}, "too few drafts"),
        ({"greedy": greedy(WRONG, without_drafts=True)}, "speculation is not the cause"),
        ({"greedy": replace(greedy(), noise_nats=0.4)}, "differ by 0.4 nats"),
        ({"saw_drafts": False}, "no drafts were seen"),
        (
            {"features": FeatureResults([FeatureResult("n", "failed", "status 500")])},
            "n: status 500",
        ),
        (
            {"greedy": replace(greedy(WRONG), noise_nats=0.4), "has_reference": True},
            "the reference may be another model",
        ),
        (
            {
                "greedy": replace(greedy(), noise_nats=0.4),
                "sampled": sampled(0.8),
                "has_reference": True,
            },
            "the reference may be another model",
        ),
        (
            {"greedy": greedy(replace(WRONG, deviation=FIRST)), "has_reference": True},
            "first greedy tokens are wrong too",
        ),
        ({"sampled": with_noise(0.3)}, "20% cannot be"),
    ],
)
def test_what_does_not_decide_is_undecided(given: dict[str, Any], reason: str) -> None:
    decision = decided(**given)
    assert decision.verdict is Verdict.UNDECIDED
    assert reason in " ".join(decision.reasons)


def test_too_little_power_says_what_more_time_would_bring() -> None:
    """400 tokens took 10 s of an audit of 25 s; 13 s for as many more include a margin."""
    decision = decided(sampled=replace(sampled(bias=0.3), seconds=10.0), seconds=25.0)
    found = re.search(
        r"not yet 20%, which takes about (\d+);.* about (\d+) s more \(--max-seconds (\d+)\)",
        decision.reasons[0],
    )
    assert found is not None, decision.reasons
    num_tokens, more_s, in_all_s = map(int, found.groups())
    assert num_tokens > 2_000
    assert more_s == pytest.approx(13 * (num_tokens / 400 - 1), abs=1)
    assert more_s + 25 <= in_all_s < more_s + 36


@pytest.mark.parametrize("has_reference", [True, False])
def test_a_wrong_token_is_lossy_where_the_truth_is_comparable(has_reference: bool) -> None:
    fault = replace(greedy(WRONG), noise_nats=0.2)
    assert decided(greedy=fault, has_reference=has_reference).verdict is Verdict.LOSSY


def test_noise_of_one_server_does_not_excuse_its_wrong_tokens() -> None:
    fault = replace(greedy(WRONG), noise_nats=0.4)
    assert decided(greedy=fault).verdict is Verdict.LOSSY


def test_dependence_counts_only_while_first_tokens_are_right() -> None:
    """Bets on dependence reach e^20 with the control right, and with the control wrong."""
    right, wrong = sampled(), sampled(first_share=0.8)
    for result in (right, wrong):
        group = replace(result.evidence.pooled, sums=np.full(len(NAMES), 20.0))
        result.evidence.groups[ALONG] = group
    assert decided(sampled=right).verdict is Verdict.LOSSY
    assert decided(sampled=wrong).verdict is Verdict.UNDECIDED


def test_the_servers_count_of_drafts_decides_where_it_has_one() -> None:
    """Whatever its streams show."""
    drafted = replace(sampled(), drafting=DraftUse(100, 20.0))
    assert decided(sampled=drafted, saw_drafts=False).verdict is Verdict.LOSSLESS


def test_a_stale_draft_cache_is_a_finding_and_the_verdict_stays_lossless() -> None:
    decision = decided(acceptance=STALE)
    assert decision.verdict is Verdict.LOSSLESS
    assert "from 2.00 to 0.13 drafts per step" in decision.findings[0]


def test_known_issues_follow_from_the_server_and_the_fault() -> None:
    fine = AcceptanceResult()
    openvino = replace(SUPPORT, owned_by="OVMS", version=None)
    assert known_issues(SUPPORT, greedy(), sampled(0.8), fine) == [VLLM_CPU]
    assert known_issues(openvino, greedy(), sampled(0.8), fine) == [OPENVINO_LATE_REJECTION]
    assert known_issues(SUPPORT, greedy(), sampled(), STALE) == [TENSORRT_STALE_DRAFT]
    assert known_issues(SUPPORT, greedy(WRONG), sampled(0.8), fine) == []
    not_of_drafts = replace(sampled(0.8), control=ControlResult(64, 5.0, is_finished=True))
    assert known_issues(SUPPORT, greedy(), not_of_drafts, fine) == []


def test_the_smallest_request_of_a_greedy_fault_ends_with_the_wrong_token() -> None:
    short = replace(WRONG, prompt="prompt")
    found = smallest_failing_request(greedy(WRONG, short), sampled(), FeatureResults())
    assert found is not None
    assert (found.request.prompt, found.request.max_tokens) == ("prompt", 2)
    assert found.observed["prefix"] == [5]


def test_the_smallest_request_of_a_sampled_fault_has_the_most_frequent_prefix() -> None:
    found = smallest_failing_request(greedy(), sampled(0.8), FeatureResults())
    assert found is not None
    assert (found.request.prompt, found.request.max_tokens) == ((1, 2), 2)
    assert found.observed["prefix"] == [5]
    assert found.observed["shares_after_prefix"] == {"6": 0.5, "7": 0.5}
    assert smallest_failing_request(greedy(), sampled(), FeatureResults()) is None
