"""The dashboard of speculation: efficiency, the governor's state, throughput against latency."""

from __future__ import annotations

from paceline.operations.monitoring.alerts import MIN_ACCEPTED_FRACTION, MIN_LOST_FRACTION
from paceline.operations.monitoring.dashboards.model import (
    REPLICA,
    WINDOW,
    Dashboard,
    Lines,
    Query,
    Row,
    Scatter,
    States,
    Unit,
    by_replica,
)
from paceline.operations.monitoring.queries import MetricQueries

_CHOSEN = {"replica": REPLICA}


def speculation(queries: MetricQueries) -> Dashboard:
    """Raises `UnknownMetric` if the gateway lacks a metric of a panel."""
    return Dashboard(
        uid="paceline-speculation",
        title="Paceline: speculation",
        description="What drafting yields, what the governor does, and what clients get.",
        rows=(
            Row("Efficiency", _efficiency(queries)),
            Row("Governor", _governor(queries)),
            Row("Reasons", _reasons(queries)),
            Row("Throughput against latency", _scatters(queries)),
            Row("Fit of the draft to the traffic", _drift(queries)),
        ),
    )


def _efficiency(queries: MetricQueries) -> tuple[Lines, ...]:
    accepted = queries.rate("paceline_governor_accepted_tokens_total", WINDOW, _CHOSEN)
    drafted = queries.rate("paceline_governor_drafted_tokens_total", WINDOW, _CHOSEN)
    steps = queries.rate("paceline_governor_steps_total", WINDOW, _CHOSEN)
    recent = queries.gauge("paceline_governor_accepted_fraction", _CHOSEN)
    by = "sum by (replica)"
    return (
        Lines(
            "Accepted / drafted",
            "Speculation efficiency: the fraction of draft tokens that the target accepted. No "
            "line while nothing is drafted.",
            (
                Query(f"{by} ({accepted}) / {by} ({drafted})", "{{replica}}"),
                Query(f"max by (replica) ({recent})", "{{replica}}, last 50 steps or so"),
            ),
            "percentunit",
            limit=MIN_ACCEPTED_FRACTION,
        ),
        Lines(
            "Draft tokens per second",
            "Drafted and verified, and accepted of these.",
            (
                by_replica("sum", drafted, "drafted"),
                by_replica("sum", accepted, "accepted"),
            ),
        ),
        Lines(
            "Engine steps per second",
            "Each step yields one token per request, and the accepted draft tokens.",
            (by_replica("sum", steps),),
        ),
    )


def _governor(queries: MetricQueries) -> tuple[Lines, ...]:
    length = queries.gauge("paceline_governor_draft_length", _CHOSEN)
    ceiling = queries.gauge("paceline_governor_draft_length_ceiling", _CHOSEN)
    measured = queries.gauge("paceline_governor_goodput_tokens_per_second", _CHOSEN)
    expected = queries.gauge("paceline_governor_expected_goodput_tokens_per_second", _CHOSEN)
    return (
        Lines(
            "Draft length",
            "Draft tokens per request in the last plan; 0 is off.",
            (
                by_replica("max", length),
                by_replica("max", ceiling, "ceiling"),
            ),
        ),
        Lines(
            "Goodput, expected and measured",
            "Output tokens per second. Expected by the governor for the present draft length; "
            "measured over the last decode-only steps.",
            (
                by_replica("max", expected, "expected"),
                by_replica("max", measured, "measured"),
            ),
        ),
        Lines(
            "Use of the engine's time",
            "Fractions of the time in engine steps.",
            tuple(
                Query(_fraction_of_time(queries, name), f"{{{{replica}}}} {use}")
                for name, use in _USES
            ),
            "percentunit",
        ),
    )


_USES = (
    ("paceline_governor_off_seconds_total", "without drafts"),
    ("paceline_governor_exploring_seconds_total", "exploring"),
    ("paceline_governor_safe_plan_seconds_total", "static setting"),
)


def _fraction_of_time(queries: MetricQueries, name: str) -> str:
    used = queries.rate(name, WINDOW, _CHOSEN)
    every = queries.rate("paceline_governor_seconds_total", WINDOW, _CHOSEN)
    return f"sum by (replica) ({used}) / sum by (replica) ({every})"


def _reasons(queries: MetricQueries) -> tuple[Lines | States, ...]:
    reason = queries.gauge("paceline_governor_last_change_info", _CHOSEN)
    changes = queries.rate("paceline_governor_draft_length_changes_total", WINDOW, _CHOSEN)
    errors = queries.rate("paceline_governor_policy_errors_total", WINDOW, _CHOSEN)
    safe = queries.rate("paceline_governor_safe_plan_steps_total", WINDOW, _CHOSEN)
    return (
        States(
            "Reason of the last change",
            "Of the draft length, with N for each number; GET /admin/governor has the present "
            "reason in full.",
            (Query(f"max by (replica, reason) ({reason})", "{{replica}}: {{reason}}"),),
            {1: ("last change", "blue")},
        ),
        Lines(
            "Changes and errors per second",
            "Changes of the draft length, steps with the static setting, errors of the policy.",
            (
                by_replica("sum", changes, "changes"),
                by_replica("sum", safe, "static steps"),
                by_replica("sum", errors, "errors"),
            ),
        ),
    )


def _scatters(queries: MetricQueries) -> tuple[Scatter, ...]:
    tokens = queries.rate("paceline_replica_load_generation_tokens_total", WINDOW)
    throughput = Query(f"sum(max by (replica) ({tokens}))", "output tokens per second")
    return tuple(
        Scatter(
            f"Throughput against {what}",
            "One point for each moment. Up and to the left is worse: the same latency at less "
            "throughput.",
            throughput,
            tuple(
                Query(queries.quantile(quantile, histogram, WINDOW), f"{name} of {what}")
                for name, quantile in (("p50", 0.5), ("p99", 0.99))
            ),
            _SECONDS,
        )
        for what, histogram in (
            ("time to first token", "paceline_time_to_first_token_seconds"),
            ("time per output token", "paceline_time_per_output_token_seconds"),
        )
    )


_SECONDS: Unit = "s"


def _drift(queries: MetricQueries) -> tuple[Lines, ...]:
    acceptance = queries.gauge("paceline_draft_drift_acceptance", _CHOSEN)
    reference = queries.gauge("paceline_draft_drift_reference_acceptance", _CHOSEN)
    lost = queries.gauge("paceline_draft_drift_lost_tokens_per_second", _CHOSEN)
    lasting = queries.gauge("paceline_draft_drift_lasting_lost_fraction", _CHOSEN)
    evidence = queries.gauge("paceline_draft_drift_evidence_fraction", _CHOSEN)
    by = "max by (replica, category)"
    return (
        Lines(
            "Acceptance by category",
            "Of the first draft token, and the reference that shifts are measured against.",
            (
                Query(f"{by} ({acceptance})", "{{replica}} {{category}}"),
                Query(f"{by} ({reference})", "{{replica}} {{category}} reference"),
            ),
            "percentunit",
        ),
        Lines(
            "Cost of the last shift",
            "Output tokens per second, when it was found.",
            (Query(f"{by} ({lost})", "{{replica}} {{category}}"),),
        ),
        Lines(
            "Lost since the best level of a day",
            "Of the engine's tokens/s, at the present load. A draft for the present traffic could "
            "give them.",
            (Query(f"{by} ({lasting})", "{{replica}} {{category}}"),),
            "percentunit",
            limit=MIN_LOST_FRACTION,
        ),
        Lines(
            "Evidence of a shift",
            "A shift is reported at 1.",
            (Query(f"{by} ({evidence})", "{{replica}} {{category}}"),),
            limit=1,
        ),
    )
