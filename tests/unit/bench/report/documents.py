"""Documents of `bench run` and `bench compare` with known figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from paceline.bench.compare.campaign import Campaign
from paceline.bench.compare.config import CompareConfig
from paceline.bench.compare.contrasts import Arm, Figure
from paceline.bench.compare.measure import ArmIdentity, Comparison, finish
from paceline.bench.compare.report import render_document as render_comparison
from paceline.bench.compare.verdict import judge
from paceline.bench.load.records import RequestOutcome, RequestRecord
from paceline.bench.results.distribution import PERCENTILE_METHOD
from paceline.bench.results.environment import describe_environment
from paceline.bench.results.speculation import unknown_speculation
from paceline.bench.results.summary import summarize
from paceline.bench.run.config import RunConfig
from unit.bench.compare.rounds import make_round


def run_document(**changes: Any) -> dict[str, Any]:
    """100 requests of two tasks: 11 tokens each, the first after 0.1 s, then one every 10 ms."""
    records = [
        RequestRecord(
            index=i,
            task="code" if i % 2 else "json",
            scheduled_s=0.2 * i,
            sent_s=0.2 * i,
            chunk_times_s=(0.2 * i + 0.1, 0.2 * i + 0.2),
            finished_s=0.2 * i + 0.2,
            outcome=RequestOutcome.OK,
            prompt_tokens=5,
            output_tokens=11,
        )
        for i in range(100)
    ]
    summary = summarize(records, 25.0)
    document = {
        "schema_version": 1,
        "kind": "paceline bench run",
        "summary": asdict(summary),
        "speculation": asdict(unknown_speculation("not asked")),
        "config": asdict(RunConfig("http://h:1", model="m<1>", num_requests=100)),
        "environment": asdict(describe_environment(["paceline"])),
        "percentile_method": PERCENTILE_METHOD,
        "notes": [],
        **changes,
    }
    return as_json(document)


def compare_document(rates_of_b: tuple[float, float] = (110.0, 112.0)) -> dict[str, Any]:
    """20 rounds: A makes 100 and 101 tokens/s, B as given."""
    comparison = Comparison(
        CompareConfig(a="http://h:1", b="http://h:2", temperature=0.0),
        describe_environment(["paceline"]),
        Campaign(num_planned_rounds=20),
        {arm: ArmIdentity(f"http://h:{arm}", "http://h", "m", None) for arm in Arm},
        num_requests_per_block=4,
    )
    first, second = rates_of_b
    rounds = [
        make_round([100 + i % 3, first, second, 101], index=i, is_aa_swapped=i % 2 == 0)
        for i in range(20)
    ]
    comparison.campaign.rounds += rounds
    comparison.campaign.judgements.append(judge(rounds, Figure.OUTPUT_TOKENS_PER_S, 0.03, 0.01))
    finish(comparison, is_interrupted=False)
    return as_json(render_comparison(comparison))


def as_json(document: Any) -> dict[str, Any]:
    """The document as a reader of its file sees it."""
    parsed = json.loads(json.dumps(document))
    assert isinstance(parsed, dict)
    return parsed
