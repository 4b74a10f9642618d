"""Documents of `bench run` and `bench compare` with known figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from paceline.foundation.results.environment import describe_environment
from paceline.workbench.bench.compare.campaign import Campaign
from paceline.workbench.bench.compare.config import CompareConfig
from paceline.workbench.bench.compare.contrasts import Arm, Figure
from paceline.workbench.bench.compare.measure import ArmIdentity, Comparison, finish
from paceline.workbench.bench.compare.report import render_document as render_comparison
from paceline.workbench.bench.compare.verdict import judge
from unit.bench.compare.rounds import make_round


def distribution(p50: float, num_samples: int = 100) -> dict[str, Any]:
    """A distribution of which all percentiles are near `p50`."""
    intervals = {f"{name}_ci95": [p50, 1.1 * p50] for name in ("p50", "p90")}
    figures = {"mean": p50, "p50": p50, "p90": 1.1 * p50, "p99": 1.2 * p50, "max": 1.3 * p50}
    return {"num_samples": num_samples, **figures, **intervals, "p99_ci95": None, "note": None}


def run_document(**changes: Any) -> dict[str, Any]:
    """100 requests of two tasks in 20 s, 11 tokens each: 55 tokens/s."""
    task = {
        "num_requests": 50,
        "num_errors": 0,
        "output_tokens": 550,
        "ttft_ms": distribution(100.0),
        "tpot_ms": distribution(10.0),
    }
    summary = {
        "num_requests": 100,
        "num_errors": 0,
        "output_tokens_per_s": 55.0,
        "requests_per_s": 5.0,
        "ttft_ms": distribution(100.0) | {"note": "p99 comes from 100 requests"},
        "tpot_ms": distribution(10.0),
        "inter_chunk_ms": distribution(20.0),
        "e2e_ms": distribution(200.0),
        "dispatch_delay_ms": distribution(0.2),
        "by_task": {"code": task, "json": task},
    }
    document = {
        "schema_version": 1,
        "kind": "paceline bench run",
        "valid": True,
        "summary": summary,
        "speculation": {"acceptance_rate": None, "acceptance_length": None},
        "config": {"url": "http://h:1", "model": "m<1>", "concurrency": 1, "rate_per_s": None},
        "environment": asdict(describe_environment(["paceline"])),
        "notes": [],
        **changes,
    }
    return as_json(document)


def compare_document(rates_of_b: tuple[float, float] = (110.0, 112.0)) -> dict[str, Any]:
    """20 rounds: A makes 100 and 101 tokens/s, B as given."""
    comparison = Comparison(
        CompareConfig(a="http://h:1", b="http://h:2", workload="mixed", temperature=0.0),
        describe_environment(["paceline"]),
        Campaign(num_planned_rounds=20),
        {arm: ArmIdentity(f"http://h:{arm}", "http://h", "m", None) for arm in Arm},
        num_requests_per_block=4,
    )
    first, second = rates_of_b
    rounds = [make_round([100 + i % 3, first, second, 101], index=i) for i in range(20)]
    comparison.campaign.rounds += rounds
    comparison.campaign.judgements.append(judge(rounds, Figure.OUTPUT_TOKENS_PER_S, 0.03, 0.01))
    finish(comparison, is_interrupted=False)
    return as_json(render_comparison(comparison))


def settings_document() -> dict[str, Any]:
    """The same of two settings of one server: A is off."""
    document = compare_document()
    document["arms"]["a"] |= {
        "subject": "http://h:1", "setting": "off", "governors": {"r0": {"draft_length": 0}},
    }  # fmt: skip
    document["arms"]["b"] |= {
        "subject": "http://h:1", "setting": "on", "governors": {"r0": {"policy": "<goodput>"}},
    }  # fmt: skip
    return document


def as_json(document: Any) -> dict[str, Any]:
    """The document as a reader of its file sees it."""
    parsed = json.loads(json.dumps(document))
    assert isinstance(parsed, dict)
    return parsed
