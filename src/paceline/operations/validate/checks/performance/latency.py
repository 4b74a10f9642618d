"""Errors, TTFT, TPOT and acceptance under the tier's load."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from paceline.foundation.load.records import RequestRecord
from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.performance.exceedance import (
    Exceedance,
    is_significantly_below,
    judge_exceedance,
)
from paceline.operations.validate.checks.performance.load import (
    LoadResult,
    max_load_seconds,
    observe_load,
)
from paceline.operations.validate.target.counters import MetricFamily
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import (
    Figure,
    Group,
    Judgement,
    Missing,
    failed,
    passed,
    skipped,
)

_MIN_SAMPLES = 500
"""A 99th percentile of fewer requests is reported with their number."""
_MIN_DRAFTED = 200


def judge_errors(load: LoadResult, tier: Tier) -> Judgement:
    """No request of the load failed."""
    errors = [record for record in load.records if not record.is_ok]
    figures: dict[str, Figure] = {
        "num_requests": len(load.records),
        "num_errors": len(errors),
        "requests_per_s": round(len(load.records) / load.seconds, 3),
        "output_tokens_per_s": round(
            sum(record.output_tokens or 0 for record in load.records) / load.seconds, 3
        ),
    }
    if errors:
        first = errors[0]
        text = f"{len(errors)} of {len(load.records)} requests failed: {first.outcome}"
        return failed(f"{text}: {first.error}", **figures)
    if not load.is_whole:
        text = f"only {len(load.records)} of {tier.num_requests} requests"
        return skipped(f"{text} ended within {load.seconds:.0f} s; none failed", **figures)
    return passed(
        f"{len(load.records)} requests, {tier.concurrency} at once, none failed", **figures
    )


def judge_ttft(load: LoadResult, tier: Tier) -> Judgement:
    """The 99th percentile of TTFT is within the tier's limit."""
    return _judge_latency(load.records, "TTFT", "ttft", lambda one: one.ttft_s, tier.ttft_p99_ms)


def judge_tpot(load: LoadResult, tier: Tier) -> Judgement:
    """The 99th percentile of TPOT is within the tier's limit."""
    return _judge_latency(load.records, "TPOT", "tpot", lambda one: one.tpot_s, tier.tpot_p99_ms)


def _judge_latency(
    records: Sequence[RequestRecord],
    name: str,
    key: str,
    value_s: Callable[[RequestRecord], float | None],
    limit_ms: float,
) -> Judgement:
    values = [
        1e3 * seconds for one in records if one.is_ok and (seconds := value_s(one)) is not None
    ]
    if not values:
        raise Missing(f"no request of the load has a {name}: failed, or answers of one token")
    num_above = sum(value > limit_ms for value in values)
    p50, p95, p99 = (float(one) for one in np.percentile(values, (50, 95, 99)))
    figures: dict[str, Figure] = {
        f"{key}_p50_ms": round(p50, 3), f"{key}_p95_ms": round(p95, 3),
        f"{key}_p99_ms": round(p99, 3), "num_requests": len(values), "num_above": num_above,
        "limit_ms": limit_ms,
    }  # fmt: skip
    few = "" if len(values) >= _MIN_SAMPLES else f", of only {len(values)} requests"
    text = (
        f"{name} P99 is {p99:.1f} ms{few}; {num_above} of {len(values)} requests are above "
        f"{limit_ms:g} ms"
    )
    found = judge_exceedance(num_above, len(values))
    if found is Exceedance.UNDECIDED:
        return skipped(f"{text}: too few requests to decide; a tier with more does", **figures)
    return (passed if found is Exceedance.KEPT else failed)(text, **figures)


def judge_acceptance(load: LoadResult, tier: Tier) -> Judgement:
    """Drafts are accepted at least as often as the tier requires."""
    before, after = load.before, load.after
    if before is None or after is None:
        raise Missing("the server shows no metrics")
    if MetricFamily.DRAFTED not in before.values:
        raise Missing("the metrics show no draft tokens: the server does not speculate")
    drafted, accepted = (
        after[family] - before[family] for family in (MetricFamily.DRAFTED, MetricFamily.ACCEPTED)
    )
    if min(drafted, accepted) < 0:
        raise Missing(
            "the counters of draft tokens fell under the load, as after a restart of an engine"
        )
    if drafted < _MIN_DRAFTED:
        raise Missing(f"only {drafted:g} tokens were drafted under the load: too few to decide")
    fraction = accepted / drafted
    figures: dict[str, Figure] = {
        "acceptance_fraction": round(fraction, 4), "num_drafted": drafted,
        "min_acceptance_fraction": tier.min_acceptance_fraction,
    }  # fmt: skip
    text = f"{fraction:.1%} of {drafted:g} draft tokens were accepted"
    if fraction > 1:
        return failed(f"{text}, which cannot be", **figures)
    if fraction >= tier.min_acceptance_fraction:
        return passed(text, **figures)
    text = f"{text}, below {tier.min_acceptance_fraction:.0%}"
    if is_significantly_below(fraction, drafted, tier.min_acceptance_fraction):
        return failed(text, **figures)
    return skipped(f"{text}: too few to decide; a tier with more requests does", **figures)


CHECKS = (
    Check(
        "load-errors",
        Group.PERFORMANCE,
        "No request fails under the tier's load",
        observe_load,
        judge_errors,
        max_load_seconds,
    ),
    Check(
        "ttft-p99",
        Group.PERFORMANCE,
        "TTFT P99 keeps the tier's limit under its load",
        observe_load,
        judge_ttft,
        max_load_seconds,
    ),
    Check(
        "tpot-p99",
        Group.PERFORMANCE,
        "TPOT P99 keeps the tier's limit under its load",
        observe_load,
        judge_tpot,
        max_load_seconds,
    ),
    Check(
        "acceptance",
        Group.PERFORMANCE,
        "Drafts are accepted as often as the tier requires",
        observe_load,
        judge_acceptance,
        max_load_seconds,
    ),
)
