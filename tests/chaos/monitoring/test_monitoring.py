"""Alerts and dashboards on a real Prometheus that scrapes a real gateway under load.

The tests run in the order of this file: conditions stay, and the last one kills the gateway. How
long each condition must hold is shortened to a second; `promtool test rules` checks the real times
in tests/unit/monitoring.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from polling import wait_until

from chaos.gateway_process import HTTP
from chaos.monitoring.monitored_gateway import CONDITIONS, MonitoredGateway, running_gateway
from chaos.monitoring.prometheus_server import PrometheusServer, start_prometheus
from paceline.operations.monitoring.alerts import AlertOptions, alerts, render_alert_rules
from paceline.operations.monitoring.dashboards import DASHBOARDS
from paceline.operations.monitoring.queries import MetricQueries

WITHIN_S = 240.0
"""`PacelineNoProgress` asks for two minutes without a change, and a request changes something when
it begins. The other conditions hold at once."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(
    gateway: MonitoredGateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusServer]:
    folder = tmp_path_factory.mktemp("prometheus")
    rules = folder / "paceline.rules.yaml"
    rules.write_text(render_alert_rules(AlertOptions(hold="1s")))
    target = gateway.gateway.admin_url.removeprefix("http://")
    with start_prometheus(folder, target, [rules]) as server:
        yield server


def queries_of_dashboards() -> list[str]:
    """As Grafana sends them, for all replicas."""
    queries = MetricQueries()
    return [
        query.expr.replace("$__rate_interval", "1m").replace("$replica", ".*")
        for make in DASHBOARDS.values()
        for panel in make(queries).panels
        for query in panel.queries
    ]


def steps_of(gateway: MonitoredGateway) -> int:
    """The steps that the governed engine has made."""
    state = HTTP.get(f"{gateway.gateway.admin_url}/admin/governor").json()
    return int(state["replicas"]["engine-0"]["steps_total"])


def test_every_query_of_the_dashboards_returns_data(
    gateway: MonitoredGateway, prometheus: PrometheusServer
) -> None:
    for change in ({"draft_length": 2}, {"draft_length": 3}, {"policy": "goodput"}):
        gateway.patch("/admin/governor", change)  # the next step makes it a change of the length
        num_steps = steps_of(gateway)
        wait_until(lambda num_steps=num_steps: steps_of(gateway) > num_steps + 1)
    empty = queries_of_dashboards()
    assert len(empty) > 40
    deadline_s = time.monotonic() + WITHIN_S
    gateway.send_load()
    while empty and time.monotonic() < deadline_s:
        gateway.send_load(num_streams=2)
        # sleep: the pause between two looks decides nothing
        time.sleep(0.3)
        empty = [expr for expr in empty if not prometheus.values(expr)]
    assert empty == []


def test_a_healthy_gateway_under_load_has_no_alert(
    gateway: MonitoredGateway, prometheus: PrometheusServer
) -> None:
    gateway.send_load()
    assert prometheus.firing() == {}


def test_each_alert_has_a_condition() -> None:
    names = [alert.name for alert in alerts(AlertOptions(), MetricQueries())]
    assert sorted(name for _, fire in CONDITIONS for name in fire) == sorted(names)


@pytest.mark.parametrize(
    ("create", "names"), CONDITIONS, ids=[create.__name__ for create, _ in CONDITIONS]
)
def test_alerts_fire_under_their_condition(
    create: Callable[[MonitoredGateway], None],
    names: tuple[str, ...],
    gateway: MonitoredGateway,
    prometheus: PrometheusServer,
) -> None:
    assert set(names).isdisjoint(prometheus.firing())
    create(gateway)
    for name in names:
        firing = prometheus.wait_firing(name, WITHIN_S)
        texts = firing["annotations"]
        assert "<error" not in texts["summary"] + texts["description"]
        assert "<no value>" not in texts["summary"]
