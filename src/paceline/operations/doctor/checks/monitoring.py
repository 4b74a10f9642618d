"""`monitoring`: alerts and panels whose metric the server does not have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.monitors import Monitor, MonitorFile
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import CannotJudge, Evidence, Finding, Severity, unknown_cost
from paceline.operations.monitoring import vllm_names
from paceline.operations.monitoring.metric_names import (
    Exists,
    MissingMetric,
    metric_names,
    missing_metrics,
)

_PREFIXES = {"vllm": "vllm:", "paceline": "paceline_"}
"""By kind of server: metrics that must be on its page if they exist."""
_ENGINE = "paceline_engine_"
"""On the pages of engines with Paceline's plugin, and on no gateway's."""
_SPECULATION = "vllm:spec_decode_"
"""Only a server that speculates has them."""
_OF_FEATURES = (
    "vllm:lora_requests_info", "vllm:kv_block_", "vllm:corrupted_requests", "vllm:estimated_",
    "vllm:watermark_", "vllm:num_requests_kv_fetch_by_stage", "vllm:nixl_", "vllm:mooncake_",
    "vllm:hf3fs_", "vllm:hisparse_", "vllm:simple_kv_offload_", "vllm:websocket_",
)  # fmt: skip
"""Only a server that uses a feature has them: LoRA, samples of the KV cache, connectors and their
like (vLLM 0.32, v1/metrics and the connectors)."""


def _judge(observation: Observation) -> Sequence[Finding]:
    files = observation.monitors
    if not files:
        raise CannotJudge("no alerts or panels were read: give --rules FILE or --dashboard FILE")
    recorded = frozenset[str]().union(*(file.recorded for file in files))
    exists_in = _exists(observation, recorded)
    is_judged = False
    findings = []
    for file in files:
        names = {
            name
            for monitor in file.monitors
            for expression in monitor.expressions
            for name in metric_names(expression)
        }
        exists = exists_in(names)
        is_judged = is_judged or any(exists(name) is not None for name in names)
        stale = [(one, lacks) for one in file.monitors if (lacks := _missing(one, exists))]
        if stale:
            findings.append(_finding(file, stale))
    if not is_judged:
        raise CannotJudge("the files have no metric that this server would show")
    return findings


def _exists(
    observation: Observation, recorded: Collection[str]
) -> Callable[[Collection[str]], Exists]:
    """For a file that needs these metrics: whether the server has one; None for one that its page
    need not show."""
    page = observation.last.page
    shown = page.declared | page.samples.keys()
    speculates = any(one[-1].drafts_total is not None for one in observation.engines.values())

    def exists(name: str, among_router_names: bool) -> bool | None:
        if name in recorded:
            return None
        if page.has_metric(name):
            return True
        if name.startswith(_SPECULATION) and not speculates:
            return None
        if name.startswith(_OF_FEATURES):
            return None
        if name.count(":") > _PREFIXES[observation.kind].count(":"):
            return None  # a recording rule's, by the convention of Prometheus
        if name.startswith(_ENGINE):
            return False if page.has_plugin else None
        if not name.startswith(_PREFIXES[observation.kind]):
            return None
        if observation.kind == "vllm" and not vllm_names.is_of_vllm(
            name, shown, among_router_names=among_router_names
        ):
            return None
        return False

    def exists_in(names: Collection[str]) -> Exists:
        has_router_names = any(
            name.startswith(vllm_names.PREFIX)
            and name not in recorded
            and not name.startswith((_SPECULATION, *_OF_FEATURES))
            and not vllm_names.is_of_vllm(name, shown)
            for name in names
        )
        return lambda name: exists(name, has_router_names)

    return exists_in


def _missing(monitor: Monitor, exists: Exists) -> list[MissingMetric]:
    found = [
        one for expression in monitor.expressions for one in missing_metrics(expression, exists)
    ]
    return list(dict.fromkeys(found))


def _finding(
    file: MonitorFile, stale: Sequence[tuple[Monitor, Sequence[MissingMetric]]]
) -> Finding:
    num, total = len(stale), len(file.monitors)
    return Finding(
        id="monitoring-stale",
        severity=Severity.WARNING,
        summary=(
            f"{num} of {total} alerts and panels of {file.name} need metrics that the server does "
            "not have."
        ),
        evidence=tuple(
            Evidence(f"{monitor.kind} {monitor.name!r} needs", ", ".join(map(_words, lacks)))
            for monitor, lacks in stale
        ),
        cost=unknown_cost("an alert that cannot fire costs what it would have prevented"),
        cause=(
            "The file is of another version of the server, or a name is misspelt. Such a panel is "
            "empty, and such an alert never fires, or always where it waits for absence."
        ),
        remedy=(
            "Render the files anew (paceline render alerts, paceline render dashboards), or use "
            "the names on the server's /metrics"
        ),
        settings=(),
        subject=file.name,
    )


def _words(metric: MissingMetric) -> str:
    if metric.is_absence:
        return f"{metric.name} (in absent(): always true)"
    is_of_vllm = metric.name.startswith(vllm_names.PREFIX)
    now = vllm_names.replacement_of(metric.name) if is_of_vllm else None
    return metric.name if now is None else f"{metric.name} (now {now})"


CHECK = Check(
    "monitoring",
    "alerts and panels whose metric the server does not have (with --rules, --dashboard)",
    ("monitoring-stale",),
    _judge,
)
