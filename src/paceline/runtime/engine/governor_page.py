"""Show the governor on vLLM's own metrics page, where no gateway does.

A thread of the front end reads the state of the governor once a second, from the control channel of
the engine core, and sets metrics of the Prometheus client: so they are on the page of one API
server and, in the client's multiprocess mode, of several. The first API server does it for all.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge

from paceline.foundation.servers.governor_channel import own_address, send
from paceline.foundation.servers.governor_metrics import GOVERNOR_METRICS, GovernorMetric
from paceline.runtime.engine.compat.checks import check_hooks, unfit_for

logger = logging.getLogger("vllm.paceline.front_end")

_REPLICA = "engine-0"
"""The label `replica`, by which alerts and dashboards group; the governor refuses several engines
in one server."""
_PERIOD_S = 1.0


class GovernorPage:
    """The governor's metrics in one registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._families = {metric.name: _family(metric, registry) for metric in GOVERNOR_METRICS}
        self._shown: dict[str, dict[str, float]] = {name: {} for name in self._families}

    def show(self, state: Mapping[str, Any]) -> None:
        """Set the metrics to a state; an empty one where it is unknown.

        In multiprocess mode no series can be removed. So a text that no longer holds has the value
        0, and a number that is not known any more is NaN, which no query counts.
        """
        for metric in GOVERNOR_METRICS:
            family, shown = self._families[metric.name], self._shown[metric.name]
            values = metric.read(state)
            for label, value in values.items():
                child = family.labels(*_labels(metric, label))
                if isinstance(child, Gauge):
                    child.set(value)
                else:
                    child.inc(max(value - shown.get(label, 0.0), 0.0))
            if isinstance(family, Gauge):
                for label in shown.keys() - values.keys():
                    child = family.labels(*_labels(metric, label))
                    child.set(0.0 if metric.is_text else math.nan)
            shown.update(values)


def show_governor(vllm_config: Any) -> None:
    """Start to show the governor of this configuration. Idempotent; never raises."""
    try:
        _show(vllm_config)
    except Exception:  # serving matters more than metrics
        logger.exception("Governor: it is not on the metrics page")


def _show(vllm_config: Any) -> None:
    if vllm_config.parallel_config._api_process_rank > 0:
        return
    misfit = unfit_for("governor", check_hooks("governor"))
    if misfit:
        _page().show({"off_reason": misfit})
        return
    given = vllm_config.additional_config
    settings = given.get("paceline", {}) if isinstance(given, Mapping) else {}
    path = settings.get("control_socket") if isinstance(settings, Mapping) else None
    if path is None and "PACELINE_CONTROL_SOCKET" in os.environ:
        return  # an engine of `paceline serve`, whose gateway shows the governor
    if path != "":
        _follow(own_address() if path is None else str(path))


@cache
def _page() -> GovernorPage:
    return GovernorPage()


@cache
def _follow(path: str) -> None:
    threading.Thread(
        target=_run, args=(path, _page()), name="paceline-metrics", daemon=True
    ).start()


def _run(path: str, page: GovernorPage) -> None:
    while True:
        try:
            page.show(send(path, {"op": "state"}))
        except (OSError, ValueError, KeyError, TypeError) as error:
            page.show({})  # the engine core is starting or ending
            logger.debug("Governor: its state could not be read: %s", error)
        time.sleep(_PERIOD_S)


def _family(metric: GovernorMetric, registry: CollectorRegistry) -> Counter | Gauge:
    labels = _labels(metric, metric.label, "replica")
    if metric.name.endswith("_total"):
        return Counter(metric.name, metric.help, labels, registry=registry)
    return Gauge(
        metric.name, metric.help, labels, registry=registry, multiprocess_mode="mostrecent"
    )


def _labels(metric: GovernorMetric, label: str, replica: str = _REPLICA) -> tuple[str, ...]:
    return (replica, label) if metric.label else (replica,)
