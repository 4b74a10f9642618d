"""The metrics of a replica: its state, its governor and its load, read at each scrape.

A new one is a row in `REPLICA_METRICS`, in `CATEGORY_METRICS` if it is about one category of
requests, or in `TEXT_METRICS` if it is a text.
"""

from __future__ import annotations

from paceline.gateway.metrics.replica_metrics import (
    CategoryMetric,
    Definition,
    DraftInfo,
    InterTokenHistogram,
    ReplicaMetric,
    TextMetric,
    from_governor,
    from_load,
)

STATE_VALUES = {"down": 0, "starting": 1, "ready": 2, "draining": 3}
"""The values of paceline_replica_state."""

REPLICA_METRICS = (
    ReplicaMetric(
        "paceline_replica_state",
        "0 down, 1 starting, 2 ready, 3 draining.",
        lambda facts: STATE_VALUES[facts.replica.state],
    ),
    ReplicaMetric(
        "paceline_replica_restarts_total",
        "Restarts of the replica, planned ones included.",
        lambda facts: facts.replica.num_restarts,
    ),
    ReplicaMetric(
        "paceline_replica_unplanned_restarts_total",
        "Restarts of the replica because it ended or hung; no operator or draft swap asked.",
        lambda facts: facts.replica.num_unplanned_restarts,
    ),
    ReplicaMetric(
        "paceline_governor_draft_length",
        "Draft tokens per request in the governor's last plan.",
        from_governor("draft_length"),
    ),
    ReplicaMetric(
        "paceline_governor_draft_length_ceiling",
        "Longest draft that the governor may plan.",
        from_governor("ceiling"),
    ),
    ReplicaMetric(
        "paceline_governor_accepted_fraction",
        "Fraction of recent draft tokens that the target accepted.",
        from_governor("accepted_fraction"),
    ),
    ReplicaMetric(
        "paceline_governor_goodput_tokens_per_second",
        "Output tokens per second of the engine, measured over its last decode-only steps.",
        from_governor("goodput_tokens_per_s"),
    ),
    ReplicaMetric(
        "paceline_governor_expected_goodput_tokens_per_second",
        "Output tokens per second that the governor expects from the current draft length.",
        from_governor("expected_goodput_tokens_per_s"),
    ),
    ReplicaMetric(
        "paceline_governor_accepted_tokens_total",
        "Draft tokens that the target accepted.",
        from_governor("accepted_tokens_total"),
    ),
    ReplicaMetric(
        "paceline_governor_drafted_tokens_total",
        "Draft tokens that the target verified.",
        from_governor("drafted_tokens_total"),
    ),
    ReplicaMetric(
        "paceline_governor_steps_total",
        "Engine steps that the governor planned.",
        from_governor("steps_total"),
    ),
    ReplicaMetric(
        "paceline_governor_safe_plan_steps_total",
        "Engine steps planned with the engine's static setting.",
        from_governor("safe_plan_steps_total"),
    ),
    ReplicaMetric(
        "paceline_governor_policy_errors_total",
        "Exceptions raised by the policy; each one led to a plan with the static setting.",
        from_governor("policy_errors_total"),
    ),
    ReplicaMetric(
        "paceline_governor_draft_length_changes_total",
        "Changes of the draft length, test drafts not counted.",
        from_governor("draft_length_changes_total"),
    ),
    ReplicaMetric(
        "paceline_governor_seconds_total",
        "Time in engine steps.",
        from_governor("seconds_total"),
    ),
    ReplicaMetric(
        "paceline_governor_off_seconds_total",
        "Time in engine steps without drafting.",
        from_governor("off_seconds_total"),
    ),
    ReplicaMetric(
        "paceline_governor_exploring_seconds_total",
        "Time in engine steps with a test draft.",
        from_governor("exploring_seconds_total"),
    ),
    ReplicaMetric(
        "paceline_governor_safe_plan_seconds_total",
        "Time in engine steps with the static setting.",
        from_governor("safe_plan_seconds_total"),
    ),
    ReplicaMetric(
        "paceline_replica_load_requests_running",
        "Requests that the replica computes, by its own metrics.",
        from_load(lambda load: load.num_running),
    ),
    ReplicaMetric(
        "paceline_replica_load_requests_waiting",
        "Requests in the replica's own queue.",
        from_load(lambda load: load.num_waiting),
    ),
    ReplicaMetric(
        "paceline_replica_load_kv_usage_fraction",
        "Fraction of the replica's KV cache in use.",
        from_load(lambda load: load.kv_usage_fraction),
    ),
    ReplicaMetric(
        "paceline_replica_load_prefix_hit_fraction",
        "Fraction of prompt tokens found in the replica's prefix cache.",
        from_load(lambda load: load.prefix_hit_fraction),
    ),
    ReplicaMetric(
        "paceline_replica_load_preemptions_total",
        "Requests evicted from the replica's KV cache since its start.",
        from_load(lambda load: load.num_preemptions),
    ),
    ReplicaMetric(
        "paceline_replica_load_generation_tokens_total",
        "Output tokens of the replica since its start.",
        from_load(lambda load: load.generation_tokens_total),
    ),
    ReplicaMetric(
        "paceline_replica_load_activity_changes_total",
        "Readings of the replica's metrics that differed from the one before in a figure that "
        "changes while it computes. No sample where the server has no such figure.",
        from_load(lambda load: load.num_activity_changes),
    ),
)

CATEGORY_METRICS = (
    CategoryMetric(
        "paceline_draft_drift_events_total",
        "Shifts of draft acceptance that were found.",
        "events_total",
    ),
    CategoryMetric(
        "paceline_draft_drift_lost_tokens_per_second",
        "Output tokens per second that the last shift costs; negative where it gains, 0 without "
        "one in the last 48 half hours of requests.",
        "lost_tokens_per_s",
    ),
    CategoryMetric(
        "paceline_draft_drift_lasting_lost_fraction",
        "Fraction of the engine's output tokens per second that is lost because the acceptance of "
        "the last half hour of requests is less than the best level of a day; 0 without a fall.",
        "lasting_lost_fraction",
    ),
    CategoryMetric(
        "paceline_draft_drift_acceptance_best_level",
        "The best level of a day, where the last half hour has certainly less; no sample else.",
        "acceptance_best_level",
    ),
    CategoryMetric(
        "paceline_draft_drift_acceptance_last_half_hour",
        "Acceptance in the last half hour, where it is certainly less than the best level.",
        "acceptance_last_half_hour",
    ),
    CategoryMetric(
        "paceline_draft_drift_acceptance",
        "Acceptance of the first draft token, weighted by text, over about the last 50 requests.",
        "acceptance",
    ),
    CategoryMetric(
        "paceline_draft_drift_reference_acceptance",
        "The acceptance that shifts are measured against; no sample while it is learned.",
        "reference_acceptance",
    ),
    CategoryMetric(
        "paceline_draft_drift_evidence_fraction",
        "Evidence of a shift; one is found at 1. No sample while the reference is learned.",
        "evidence_fraction",
    ),
)

TEXT_METRICS = (
    TextMetric(
        "paceline_governor_last_change_info",
        "Always 1; the reason of the last change of the draft length, with N for each number.",
        "reason",
        "last_change_reason",
    ),
)

DRAFT_INFO = DraftInfo(
    "paceline_replica_draft_info", "Always 1; the label draft names the drafter."
)

INTER_TOKEN = InterTokenHistogram(
    "paceline_replica_inter_token_seconds",
    "Seconds between two chunks of tokens of a request, as the replica counts them (vLLM from 0.11 "
    "on); with drafts a chunk has several tokens. No sample where the replica does not report it.",
)

ALL_REPLICA_METRICS: tuple[Definition, ...] = (
    *REPLICA_METRICS, DRAFT_INFO, INTER_TOKEN, *CATEGORY_METRICS, *TEXT_METRICS,
)  # fmt: skip
