"""`PlainServer`: the live view of a vLLM server without a gateway, from its metrics page.

It makes the documents that a gateway sends (`connection`). Rates and percentiles are those of the
last minute; a figure that only a gateway has is null.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.foundation.servers.default_addresses import ADMIN_PORT, at_port
from paceline.foundation.servers.governor_metrics import state_of
from paceline.foundation.servers.metrics_page import MetricsPage, PageUnreadable, parse_page
from paceline.operations.top.connection import SCHEMA_VERSION, Server, ServerProblem

_PERIOD_S = 1.0
_WINDOW_S = 60.0
_HISTOGRAMS = {
    "ttft": "vllm:time_to_first_token_seconds",
    "tpot": "vllm:request_time_per_output_token_seconds",
    "queue": "vllm:request_queue_time_seconds",
}
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class _Reading:
    at_s: float
    """Unix time."""
    page: MetricsPage
    governor: Mapping[str, Any]
    """Empty without one."""


class PlainServer:
    """Reads the page once a second; like `Server` otherwise."""

    def __init__(
        self,
        server: Server,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._server = server
        self._clock, self._sleep = clock, sleep
        self._readings: deque[_Reading] = deque()
        self._number = 0

    def fetch(self) -> dict[str, Any]:
        """The newest state, after two readings. Raises `ServerProblem`."""
        return next(document for name, document in self.events() if name == "history")

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """A history of one point, then an update per second. Raises `ServerProblem`."""
        self._read()
        while True:
            self._sleep(_PERIOD_S)
            before, after = self._readings[-1], self._read()
            self._number += 1
            latest = view(self._readings[0], before, after)
            update = {
                "number": self._number,
                "latest": latest,
                "events": changes(before.governor, after.governor, after.at_s),
            }
            if self._number > 1:
                yield "update", update
                continue
            points: dict[str, Any] = {"at_s": [after.at_s], "replicas": {}}
            points |= {group: _columns(latest[group]) for group in ("traffic", "fleet")}
            yield "history", {"schema_version": SCHEMA_VERSION, "points": points, **update}

    def _read(self) -> _Reading:
        try:
            page = parse_page(self._server.fetch_text("/metrics"))
        except PageUnreadable as error:
            raise ServerProblem(f"{self._server.url}/metrics cannot be read: {error}") from None
        if page.kind != "vllm":
            raise ServerProblem(
                f"{self._server.url} has neither a live view nor metrics of vLLM. Give a vLLM "
                "server or the admin port of paceline serve, by default "
                f"{at_port(self._server.url, ADMIN_PORT)}"
            )
        state = state_of(lambda name: [(one.labels, one.value) for one in page.select(name)])
        self._readings.append(_Reading(self._clock(), page, state))
        while self._readings[-1].at_s - self._readings[0].at_s > _WINDOW_S:
            self._readings.popleft()
        return self._readings[-1]


def view(first: _Reading, before: _Reading, after: _Reading) -> dict[str, Any]:
    """One moment: the window since `first`, and what was computed since `before`."""
    page, governor = after.page, after.governor
    running, waiting = (page.total(f"vllm:num_requests_{name}") for name in ("running", "waiting"))
    tokens_per_s = _rate(before, after, "vllm:generation_tokens_total")
    is_at_work = bool(tokens_per_s)
    figures = {
        "draft_length": governor.get("draft_length"),
        "accepted_fraction": governor.get("accepted_fraction"),
        "tokens_per_s": tokens_per_s if is_at_work else None,
        "expected_tokens_per_s": (
            governor.get("expected_goodput_tokens_per_s") if is_at_work else None
        ),
    }
    traffic = {
        "num_in_flight": running,
        "num_waiting": waiting,
        "requests_per_s": _rate(first, after, "vllm:request_success_total"),
        "failed_per_s": _rate(first, after, "vllm:request_success_total", finished_reason="error"),
        "output_tokens_per_s": _rate(first, after, "vllm:generation_tokens_total"),
    }
    for name, histogram in _HISTOGRAMS.items():
        traffic |= _percentiles(first, after, name, histogram)
    replica = {
        "name": "vllm",
        "state": "ready",
        "reason": None,
        "breaker": None,
        "in_flight": running,
        "waiting": waiting,
        "kv_usage_fraction": page.total("vllm:kv_cache_usage_perc"),
        **figures,
        "governor": _governor(governor),
    }
    return {"at_s": after.at_s, "traffic": traffic, "fleet": figures, "replicas": [replica]}


def changes(
    before: Mapping[str, Any], after: Mapping[str, Any], at_s: float
) -> list[dict[str, Any]]:
    """What changed in a governor, as events."""
    found: list[tuple[str, str, bool]] = []
    if before.get("policy") != after.get("policy") and before and after:
        found.append(("policy", f"policy {before.get('policy')} → {after.get('policy')}", False))
    reason = after.get("safe_plan_reason")
    if reason is not None and before.get("safe_plan_reason") != reason:
        found.append(("static_setting", str(reason), True))
    lengths = [state.get("draft_length") for state in (before, after)]
    if None not in lengths and lengths[0] != lengths[1]:
        found.append(("length", f"draft length {lengths[0]:.0f} → {lengths[1]:.0f}", False))
    return [
        {"at_s": at_s, "kind": kind, "replica": "vllm", "text": text, "is_problem": is_problem}
        for kind, text, is_problem in found
    ]


def _governor(state: Mapping[str, Any]) -> dict[str, Any] | None:
    if not state:
        return None
    return {
        "policy": state.get("policy"),
        "ceiling": state.get("ceiling"),
        "reason": state.get("safe_plan_reason") or state.get("off_reason"),
        "uses_static_setting": "safe_plan_reason" in state or "off_reason" in state,
        "length_changes": state.get("draft_length_changes_total"),
        "last_change_reason": state.get("last_change_reason"),
    }


def _rate(before: _Reading, after: _Reading, name: str, **labels: str) -> float | None:
    """Per second; None where the page does not show the counter, or no time has passed."""
    counts = [one.page.total(name, **labels) for one in (before, after)]
    seconds = after.at_s - before.at_s
    if counts[0] is None or counts[1] is None or seconds <= 0:
        return None
    return max(counts[1] - counts[0], 0.0) / seconds


def _percentiles(
    first: _Reading, after: _Reading, name: str, histogram: str
) -> dict[str, float | None]:
    before, now = (one.page.histogram(histogram) for one in (first, after))
    added = None if before is None or now is None else now.minus(before)
    found = {key: None if added is None else added.quantile(q) for key, q in _QUANTILES.items()}
    return {
        f"{name}_{key}_ms": None if value is None else round(1e3 * value, 3)
        for key, value in found.items()
    }


def _columns(values: Mapping[str, float | None]) -> dict[str, list[float | None]]:
    return {name: [value] for name, value in values.items()}
