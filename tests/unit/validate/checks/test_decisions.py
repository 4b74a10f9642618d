"""Decisions that faults on the wire do not reach: undecided figures, shared deployments, audits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.operations.validate.checks import CHECKS, Deployment
from paceline.operations.validate.checks.api.sampling import Seeded, judge_seeds
from paceline.operations.validate.checks.operation import cancellation, draining, metrics
from paceline.operations.validate.checks.output.lossless import Audited
from paceline.operations.validate.checks.output.lossless import judge as judge_audit
from paceline.operations.validate.checks.performance.exceedance import (
    Exceedance,
    binomial_tail,
    is_significantly_below,
    judge_exceedance,
)
from paceline.operations.validate.checks.performance.latency import judge_acceptance, judge_ttft
from paceline.operations.validate.checks.performance.load import LoadResult
from paceline.operations.validate.target.counters import Counters, MetricFamily
from paceline.operations.validate.target.exchange import Reply
from paceline.operations.validate.tiers import tiers
from paceline.operations.validate.values import Judgement, Missing, Status, Violation
from paceline.workbench.audit.verdict import Verdict

TIER = replace(tiers()["local"], ttft_p99_ms=100, min_acceptance_fraction=0.5)


def load(num_slow: int, num: int = 100) -> LoadResult:
    """Requests with a TTFT of 50 ms, some of them of 500 ms."""
    ttfts_s = [0.5] * num_slow + [0.05] * (num - num_slow)
    records = [
        RequestRecord(number, "t", 0.0, 0.0, (ttft_s,), ttft_s, RequestOutcome.OK, 4, 1)
        for number, ttft_s in enumerate(ttfts_s)
    ]
    return LoadResult(records, 10.0, None, None)


@pytest.mark.parametrize(
    ("num_slow", "status"), [(0, "PASS"), (1, "PASS"), (2, "SKIP"), (5, "SKIP"), (7, "FAIL")]
)
def test_a_percentile_is_failed_only_where_chance_does_not_explain_it(
    num_slow: int, status: str
) -> None:
    judgement = judge_ttft(load(num_slow), TIER)
    assert judgement.status == status
    assert judgement.figures["num_above"] == num_slow
    assert "of only 100 requests" in judgement.reason


def test_a_percentile_of_many_requests_needs_no_remark() -> None:
    assert "of only" not in judge_ttft(load(0, 500), TIER).reason


def test_a_limit_that_exactly_one_percent_exceed_fails_one_validation_in_a_thousand() -> None:
    """P(X >= 6) for B(100, 0.01) is 0.0005 and P(X >= 5) is 0.0034."""
    assert judge_exceedance(5, 100) is Exceedance.UNDECIDED
    assert judge_exceedance(6, 100) is Exceedance.EXCEEDED


def test_a_floor_that_every_token_must_keep_can_be_missed() -> None:
    assert is_significantly_below(0.99, 300, 1.0)


@pytest.mark.parametrize("num_above", [600, 1500, 2000])
def test_a_large_load_of_which_most_exceed_the_limit_is_judged(num_above: int) -> None:
    """The enterprise tier sends 2,000 requests; their binomial coefficients are no floats."""
    assert judge_exceedance(num_above, 2000) is Exceedance.EXCEEDED


def test_the_binomial_tail_of_many_trials_is_that_of_the_normal_distribution() -> None:
    """20,000 fair coins: a deviation of +-1.96 standard deviations, 138.6."""
    assert binomial_tail(10_139, 20_000, 0.5) == pytest.approx(0.025, rel=0.03)
    assert binomial_tail(0, 20_000, 0.5) == 1.0


def counters(**values: float) -> Counters:
    return Counters("vllm", {MetricFamily[name]: value for name, value in values.items()})


@pytest.mark.parametrize(
    ("accepted", "status"),
    [(150, "PASS"), (149, "SKIP"), (120, "SKIP"), (90, "FAIL"), (301, "FAIL"), (300, "PASS")],
)
def test_acceptance_fails_only_where_chance_does_not_explain_it(
    accepted: float, status: str
) -> None:
    """300 draft tokens count as 75 that are independent: P(X <= 23) for B(75, 0.5) is 0.0005."""
    before, after = counters(DRAFTED=0, ACCEPTED=0), counters(DRAFTED=300, ACCEPTED=accepted)
    loaded = LoadResult([], 1.0, before, after)
    assert judge_acceptance(loaded, TIER).status == status


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, None),
        (counters(), counters()),
        (counters(DRAFTED=0, ACCEPTED=0), counters(DRAFTED=10, ACCEPTED=0)),
    ],
)
def test_acceptance_is_skipped_without_drafts(
    before: Counters | None, after: Counters | None
) -> None:
    with pytest.raises(Missing):
        judge_acceptance(LoadResult([], 1.0, before, after), TIER)


def test_counters_of_drafts_that_fall_are_no_acceptance() -> None:
    """An engine was restarted, and has drafted more than before since."""
    before, after = counters(DRAFTED=100, ACCEPTED=90), counters(DRAFTED=400, ACCEPTED=80)
    with pytest.raises(Missing, match="fell under the load"):
        judge_acceptance(LoadResult([], 1.0, before, after), TIER)


def ledger(counted: int, *, is_shared: bool) -> metrics.Ledger:
    before, after = counters(FINISHED=3), counters(FINISHED=3 + counted)
    return metrics.Ledger(before, after, 8, 100, 100, is_shared)


def test_requests_of_other_clients_are_allowed_where_the_deployment_is_shared() -> None:
    assert metrics.judge_requests(ledger(11, is_shared=True), TIER).status == "PASS"
    with pytest.raises(Violation, match="--shared"):
        metrics.judge_requests(ledger(11, is_shared=False), TIER)
    with pytest.raises(Violation, match="count 7"):
        metrics.judge_requests(ledger(7, is_shared=True), TIER)


@pytest.mark.parametrize(
    "check_id",
    [
        "cancellation",
        "prefix-cache",
        "overload",
        "load-errors",
        "ttft-p99",
        "tpot-p99",
        "lossless",
    ],
)
async def test_a_shared_deployment_is_not_loaded(check_id: str) -> None:
    """There is no target: a check that sends a request breaks off."""
    deployment = Deployment(None, TIER, is_shared=True)  # type: ignore[arg-type]
    (check,) = [check for check in CHECKS if check.id == check_id]
    result = await check.run(deployment)
    assert result.status is Status.SKIP
    assert "--shared" in result.reason


def test_a_check_that_is_named_may_load_a_shared_deployment() -> None:
    deployment = Deployment(None, TIER, is_shared=True)  # type: ignore[arg-type]
    with pytest.raises(Missing, match="--require load-errors"):
        deployment.refuse_to_load("load-errors", "ttft-p99")
    deployment.requested = ("ttft-p99",)
    deployment.refuse_to_load("load-errors", "ttft-p99")


def cancelled(running: float, kv_used: float, **after: float) -> cancellation.Cancelled:
    """Four streams that ran at once in an idle deployment."""
    before = counters(RUNNING=0, KV_USED=0.0, FINISHED=0)
    left = counters(**{"RUNNING": 0, "KV_USED": 0.0, "FINISHED": 4, **after})
    return cancellation.Cancelled(before, running, kv_used, left, 4, 5.0, 1.0, 2.0, 16.0)


def test_a_gauge_that_never_shows_the_streams_proves_nothing_about_their_cancellation() -> None:
    with pytest.raises(Violation, match="show 0 requests in flight while 4 streams run"):
        cancellation.judge(cancelled(0, 0.0), TIER)


def test_streams_that_the_gauge_never_shows_may_run_on_unseen() -> None:
    """A replica whose gauge is older than its streams shows none before and none after them."""
    with pytest.raises(Missing, match="at most 2 of 4 streams"):
        cancellation.judge(cancelled(2, 0.1), TIER)


def test_answers_that_end_before_the_gauges_are_read_are_no_fault_of_the_metrics() -> None:
    """As the bundled pair on an idle machine, whose longest answers take a second or two."""
    found = replace(cancelled(0, 0.0), freed_s=15.0, shortest_s=1.2)
    with pytest.raises(Missing, match="may end by themselves"):
        cancellation.judge(found, TIER)


def test_streams_that_were_computed_to_their_end_were_not_cancelled() -> None:
    """Four short requests after the streams refresh the gauges."""
    with pytest.raises(Violation, match="3 of 4 requests run to their end"):
        cancellation.judge(cancelled(4, 0.1, FINISHED=7), TIER)


def test_an_answer_that_ended_while_the_gauges_were_awaited_was_not_computed_in_vain() -> None:
    """As one of the bundled pair, whose answers are hardly longer than the gauges lag."""
    found = replace(cancelled(4, 0.1, FINISHED=5), cancelled_s=8.1)
    with pytest.raises(Missing, match=r"1 of 4 answers are complete.*after 8\.1 s.*by themselves"):
        cancellation.judge(found, TIER)
    with pytest.raises(Violation, match="1 of 4 requests run to their end"):
        cancellation.judge(replace(found, cancelled_s=7.9), TIER)


def test_a_server_that_counts_no_answers_is_judged_by_its_gauges() -> None:
    found = cancelled(4, 0.1)
    pages = (
        Counters("vllm", {k: v for k, v in page.values.items() if k is not MetricFamily.FINISHED})
        for page in (found.before, found.after)
    )
    before, after = pages
    assert cancellation.judge(replace(found, before=before, after=after), TIER).status == "PASS"


def test_streams_that_may_have_ended_by_themselves_prove_nothing() -> None:
    """A gateway counts a request without a client as cancelled, whatever its engine does."""
    found = replace(cancelled(4, 0.1), freed_s=16.1)
    with pytest.raises(Missing, match=r"may end by themselves after 16\.0 s"):
        cancellation.judge(found, TIER)
    assert cancellation.judge(replace(found, freed_s=15.9), TIER).status == "PASS"


def test_a_tenth_of_the_rise_of_the_kv_cache_may_stay() -> None:
    assert cancellation.judge(cancelled(4, 0.1, KV_USED=0.009), TIER).status == "PASS"
    with pytest.raises(Violation, match=r"1.1% of the KV cache are in use"):
        cancellation.judge(cancelled(4, 0.1, KV_USED=0.011), TIER)


def test_a_rise_that_is_too_small_is_not_judged() -> None:
    judgement = cancellation.judge(cancelled(4, 0.004, KV_USED=0.004), TIER)
    assert judgement.status == "PASS"
    assert "too little to show" in judgement.reason


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict.LOSSLESS, Status.PASS),
        (Verdict.LOSSY, Status.FAIL),
        (Verdict.UNDECIDED, Status.SKIP),
    ],
)
def test_the_verdict_of_an_audit_decides(verdict: Verdict, status: Status) -> None:
    audited = Audited(verdict, ("token 7 is wrong",), ("stale draft KV",), None, 4000)
    judgement = judge_audit(audited, TIER)
    assert judgement.status is status
    assert "token 7 is wrong; finding: stale draft KV" in judgement.reason


def test_one_seed_may_give_several_texts_only_with_speculation() -> None:
    observed = Seeded(("a", "b"), ("c", "d"), promises_repeats=False)
    assert judge_seeds(observed, TIER).status == "PASS"
    with pytest.raises(Violation, match="without drafts"):
        judge_seeds(replace(observed, promises_repeats=True), TIER)


def test_a_drained_replica_must_get_no_request() -> None:
    ok = Reply("POST", 200, {}, b"{}")
    sound = draining.Drained("r0", {"draining": True, "in_flight": 0}, [ok], {"state": "ready"})
    assert draining.judge(sound, TIER).status == "PASS"
    busy = replace(sound, drained={"draining": True, "in_flight": 1})
    with pytest.raises(Violation, match="takes requests"):
        draining.judge(busy, TIER)


def test_a_judgement_needs_a_reason_and_ids_are_unique() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        Judgement(Status.PASS, "")
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids) >= 20
