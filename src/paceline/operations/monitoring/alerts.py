"""The alerts: condition, how long it must hold, severity, what it costs and what to do.

`render_alert_rules` writes them as a rule file for Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import yaml

from paceline.operations.monitoring.queries import MetricQueries
from paceline.runtime.gateway.metrics.metrics import BREAKER_VALUES
from paceline.runtime.gateway.metrics.replica_definitions import STATE_VALUES
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.routing.breaker import BreakerState

Severity = Literal["critical", "warning"]
"""critical: clients get errors or nothing now. warning: it is slower, costlier or near that."""

NOT_COUNTED = (Outcome.REFUSED, Outcome.ENGINE_REFUSED, Outcome.CLIENT_GONE, Outcome.TOO_LARGE)
"""Outcomes that the client caused; they count neither as good nor as failed. All others but
`completed` spend the error budget: the service did not give what was asked."""

MIN_ACCEPTED_FRACTION = 0.5
"""Below it more than half of the drafted tokens are thrown away."""
MAX_KV_USAGE_FRACTION = 0.9
"""The last tenth is gone within a few long prompts; then vLLM preempts requests."""
MAX_QUEUE_P99_S = 0.5
"""Also a bucket of the histogram, so the quantile is exact there."""
MIN_AVAILABILITY = 0.95
"""The fast alert on the error budget needs 14.4 times the budget: here 72 % of the requests. Below
0.93 it could never fire."""
MIN_LOST_FRACTION = 0.05
"""Of an engine's tokens/s: less seldom pays for another draft. Chosen empirically."""
_MIN_FAILED = 10
"""Fewer failures in the longer window say little about a rate. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class AlertOptions:
    """What a deployment may set."""

    job: str = "paceline"
    """The job label that Prometheus gives the gateways."""
    availability: float = 0.999
    """Fraction of requests that must not fail; the rest is the error budget."""
    hold: str | None = None
    """Replaces the times above 0 that conditions must hold, to try the rules; None keeps them."""

    def __post_init__(self) -> None:
        if not MIN_AVAILABILITY <= self.availability < 1:
            raise ValueError(
                f"availability is {self.availability}; it must be at least {MIN_AVAILABILITY} and "
                "below 1"
            )


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. Annotations are templates of Prometheus."""

    name: str
    group: str
    expr: str
    hold: str
    """How long the condition must hold; 0s to fire at once."""
    severity: Severity
    summary: str
    cost: str
    """What the condition costs."""
    remedy: str
    """What to do."""


def alerts(options: AlertOptions, queries: MetricQueries) -> tuple[Alert, ...]:
    """All alerts. Raises `UnknownMetric` if the gateway lacks a metric that one needs."""
    return (*_serving_alerts(options, queries), *_speculation_alerts(queries))


def _serving_alerts(options: AlertOptions, queries: MetricQueries) -> tuple[Alert, ...]:
    ready, down = STATE_VALUES["ready"], STATE_VALUES["down"]
    opened = BREAKER_VALUES[BreakerState.OPEN]
    up = f'up{{job="{options.job}"}}'
    state = queries.gauge("paceline_replica_state")
    breaker = queries.gauge_over("max_over_time", "paceline_breaker_state", "1m")
    running = queries.gauge("paceline_replica_load_requests_running")
    changes = queries.increase("paceline_replica_load_activity_changes_total", "2m")
    all_tokens = queries.counter("paceline_replica_load_generation_tokens_total")
    restarts = queries.increase("paceline_replica_unplanned_restarts_total", "15m")
    misdirected = " + ".join(
        f"sum by (job, instance) ({queries.increase(name, '5m', {label: Outcome.MISDIRECTED})})"
        for name, label in (
            ("paceline_retries_total", "kind"),
            ("paceline_requests_total", "outcome"),
        )
    )
    kv_usage = queries.gauge("paceline_replica_load_kv_usage_fraction")
    queue = queries.quantile(0.99, "paceline_queue_seconds", "5m", by="job")
    return (
        Alert(
            "PacelineGatewayDown", "paceline-serving",
            # Without a target there is no series `up`: no pod, or another job label.
            f"{up} == 0 or absent({up})", "1m", "critical",
            "Prometheus cannot read {{ with $labels.instance }}the gateway {{ . }}{{ else }}any "
            "gateway{{ end }}.",
            "The process has ended or hangs, and its clients get no answers; or only the admin "
            "port is unreachable, and every other alert is blind.",
            "Look at /health on the data port and at the gateway's log; check "
            "server.admin_host, the network policy and the scrape configuration, and that it gives "
            "the gateways this job label.",
        ),
        Alert(
            "PacelineNoReplicaReady", "paceline-serving",
            # Also without any replica, where there is no series of a state.
            f"{up} == 1 unless on (job, instance) {state} == {ready}", "2m", "critical",
            "No replica of the gateway {{ $labels.instance }} is ready.",
            "Every request gets a 503.",
            "GET /admin/replicas says for each replica why it is not ready; local engines have "
            "their own logs. Engines that load a large model at the start need longer than this "
            "alert waits.",
        ),
        Alert(
            "PacelineReplicaDown", "paceline-serving",
            f"{state} == {down}", "5m", "warning",
            "{{ $labels.replica }} has been down for five minutes.",
            "The other replicas of its model carry its load; without any, requests to it get "
            "a 503.",
            "GET /admin/replicas says why it is down. Start its server, or remove it with DELETE "
            "/admin/replicas; the gateway restarts a local engine.",
        ),
        *_burn_alerts(options, queries),
        Alert(
            "PacelineNoProgress", "paceline-serving",
            # Not by tokens: some servers count those of a request when it ends. A replica that
            # computes embeddings only never has any; others have those of the warm-up.
            f"{running} > 0 and {changes} == 0 and {all_tokens} > 0", "3m", "critical",
            "{{ $labels.replica }} has {{ $value }} running requests and does not compute.",
            "These requests hold memory and their clients wait; the gateway sends new ones to "
            "other replicas, if there are any.",
            "The gateway restarts a local engine that hangs. Restart a remote one, and keep the "
            "stacks of its processes (py-spy dump) for the report.",
        ),
        Alert(
            "PacelineBreakerOpen", "paceline-serving",
            f"{breaker} >= {opened}", "2m", "warning",
            "The circuit breaker of {{ $labels.replica }} has been opening for two minutes.",
            "The other replicas carry its load, and each trial costs a client a retry.",
            "The gateway's log names the failed attempts. If the replica's health check passes, "
            "send it a request of your own; restart it or take it out with PATCH /admin/replicas.",
        ),
        Alert(
            "PacelineReplicaMisdirected", "paceline-serving",
            f"{misdirected} > 0", "2m", "warning",
            "At the address of a replica of {{ $labels.instance }} something answers that is no "
            "engine, or an engine that refuses the gateway's key.",
            "Each such answer costs a retry on another replica; without one the client gets "
            "a 503.",
            "The gateway's log names the replica and the status (misdirected: answered …). Look "
            "for a redirect, a login page or a filtering proxy in front of it, and check its url "
            "and key.",
        ),
        Alert(
            "PacelineEngineRestarted", "paceline-serving",
            f"{restarts} > 0", "0s", "warning",
            "The engine {{ $labels.replica }} ended or hung within the last 15 minutes, and was "
            "restarted.",
            "Streams continue on other replicas where there are any; its prefix cache and its "
            "governor's estimates are lost.",
            "The engine's log has the reason: out of memory (lower gpu_memory_utilization, "
            "max_model_len or max_num_seqs), a driver error, or a hang that the gateway ended. "
            "Restarts by paceline draft swap and PATCH /admin/replicas do not count.",
        ),
        Alert(
            "PacelineKvCacheNearlyFull", "paceline-serving",
            f"{kv_usage} > {MAX_KV_USAGE_FRACTION:g}", "5m", "warning",
            "The KV cache of {{ $labels.replica }} is {{ $value | humanizePercentage }} full.",
            "Further requests wait, or vLLM preempts running ones and computes them again.",
            "Lower max_num_seqs or max_model_len, quantize the weights or the KV cache, share "
            "prompt prefixes, or add a replica.",
        ),
        Alert(
            "PacelineQueueSlow", "paceline-serving",
            f"{queue} > {MAX_QUEUE_P99_S:g}", "5m", "warning",
            "One request in a hundred waits longer than {{ $value | humanizeDuration }} in the "
            "gateway.",
            "The wait is added to the time to first token; soon requests are refused.",
            "Add a replica. If the engines have room (their KV cache and queues), raise "
            "admission.max_in_flight.",
        ),
    )  # fmt: skip


def _burn_alerts(options: AlertOptions, queries: MetricQueries) -> tuple[Alert, ...]:
    """Two windows and two rates each (Site Reliability Workbook, chapter 5): the long window shows
    that the loss matters, the short one that it still happens."""
    return tuple(
        Alert(
            name, "paceline-serving",
            _burn(options, queries, long, short, factor), hold, severity,
            "{{ $value | humanizePercentage }} of the requests of the last " + long + " failed.",
            f"At this rate the error budget of 30 days ({1 - options.availability:.3g} of all "
            f"requests) is spent in {30 / factor:.2g} days.",
            "paceline_requests_total by outcome names the kind: overloaded and expired need "
            "capacity, unreachable, misdirected, broken and timed_out lead to a replica, "
            "internal_error to the gateway's log.",
        )
        for name, long, short, factor, hold, severity in _BURNS
    )  # fmt: skip


_BURNS: tuple[tuple[str, str, str, float, str, Severity], ...] = (
    ("PacelineErrorBudgetBurnsFast", "1h", "5m", 14.4, "2m", "critical"),
    ("PacelineErrorBudgetBurns", "6h", "30m", 6, "15m", "warning"),
)


def _burn(
    options: AlertOptions, queries: MetricQueries, long: str, short: str, factor: float
) -> str:
    limit = f"{factor * (1 - options.availability):.6g}"
    failed = queries.increase("paceline_requests_total", long, without=_NOT_FAILED)
    return (
        f"{_failed_fraction(queries, long)} > {limit} "
        f"and {_failed_fraction(queries, short)} > {limit} "
        f"and sum by (job) ({failed}) >= {_MIN_FAILED}"
    )


def _failed_fraction(queries: MetricQueries, window: str) -> str:
    failed = queries.rate("paceline_requests_total", window, without=_NOT_FAILED)
    counted = queries.rate("paceline_requests_total", window, without={"outcome": NOT_COUNTED})
    return f"sum by (job) ({failed}) / sum by (job) ({counted})"


_NOT_FAILED = {"outcome": (Outcome.COMPLETED, *NOT_COUNTED)}


def _speculation_alerts(queries: MetricQueries) -> tuple[Alert, ...]:
    by = "sum by (job, replica)"
    accepted = queries.rate("paceline_governor_accepted_tokens_total", "1m")
    drafted = queries.rate("paceline_governor_drafted_tokens_total", "1m")
    length = queries.gauge("paceline_governor_draft_length")
    errors = queries.increase("paceline_governor_policy_errors_total", "15m")
    lost = queries.gauge_over("avg_over_time", "paceline_draft_drift_lasting_lost_fraction", "10m")
    return (
        Alert(
            "PacelineAcceptanceLow", "paceline-speculation",
            f"{by} ({accepted}) / {by} ({drafted}) < {MIN_ACCEPTED_FRACTION:g} "
            f"and max by (job, replica) ({length}) > 0", "5m", "warning",
            "{{ $labels.replica }} accepts {{ $value | humanizePercentage }} of its draft tokens "
            "and still drafts.",
            "More than half of the draft tokens are computed and thrown away. The policies goodput "
            "and latency draft only while that pays; a fixed length or a schedule may be slower "
            "than no speculation.",
            "Change the policy to goodput (paceline governor set), shorten or stop drafts, or "
            "train a draft on your traffic (paceline draft train).",
        ),
        Alert(
            "PacelineGovernorFailing", "paceline-speculation",
            f"{errors} > 0", "0s", "warning",
            "The policy of {{ $labels.replica }} raised {{ $value | humanize }} errors in 15 "
            "minutes.",
            "Each such step uses the engine's static draft length; answers stay right, speed is "
            "that of static speculation.",
            "The engine's log has the exception. Change to another policy until it is fixed "
            "(paceline governor set).",
        ),
        Alert(
            "PacelineDraftNoLongerFits", "paceline-speculation",
            f"{lost} > {MIN_LOST_FRACTION:g}", "0s", "warning",
            "Draft acceptance of {{ $labels.category }} on {{ $labels.replica }} was less in the "
            "last half hour than at the best level of a day: {{ $value | humanizePercentage }} of "
            "the tokens/s are lost.",
            "The traffic has changed, and a new draft could give these tokens. Shifts that have "
            "not lasted are in paceline_draft_drift_lost_tokens_per_second.",
            "Keep prompts of the present traffic (docs/how-to/capture-prompts.md) and train a "
            "draft on them (paceline draft train).",
        ),
    )  # fmt: skip


_HEAD = "# Written by `paceline render alerts`; docs/how-to/monitor.md says how to load it.\n"


def render_alert_rules(options: AlertOptions, queries: MetricQueries | None = None) -> str:
    """The rule file, as YAML."""
    groups: dict[str, list[dict[str, object]]] = {}
    for alert in alerts(options, queries or MetricQueries()):
        groups.setdefault(alert.group, []).append(_rule(alert, options.hold))
    document = {"groups": [{"name": name, "rules": rules} for name, rules in groups.items()]}
    return _HEAD + yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)


def _rule(alert: Alert, hold: str | None) -> dict[str, object]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.hold if hold is None or alert.hold == "0s" else hold,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": f"{alert.cost} {alert.remedy}",
        },
    }
