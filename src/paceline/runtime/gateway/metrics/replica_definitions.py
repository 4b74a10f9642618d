"""The metrics of a replica: its state and its load, read at each scrape, and its governor.

A new one is a row in `REPLICA_METRICS`, or in `governor_metrics` if it follows from the state of
the governor.
"""

from __future__ import annotations

from paceline.foundation.servers.governor_metrics import GOVERNOR_METRICS
from paceline.runtime.gateway.metrics.replica_metrics import (
    Definition,
    DraftInfo,
    InterTokenHistogram,
    ReplicaMetric,
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

DRAFT_INFO = DraftInfo(
    "paceline_replica_draft_info", "Always 1; the label draft names the drafter."
)

INTER_TOKEN = InterTokenHistogram(
    "paceline_replica_inter_token_seconds",
    "Seconds between two chunks of tokens of a request, as the replica counts them (vLLM from 0.11 "
    "on); with drafts a chunk has several tokens. No sample where the replica does not report it.",
)

ALL_REPLICA_METRICS: tuple[Definition, ...] = (
    *REPLICA_METRICS, DRAFT_INFO, INTER_TOKEN, *GOVERNOR_METRICS,
)  # fmt: skip
