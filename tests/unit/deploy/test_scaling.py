"""The queries of the autoscaler, on Prometheus' own engine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from unit.deploy.rendering import of_kind
from unit.deploy.test_manifests import rendered
from unit.monitoring.promtool import run_promtool

_CASES = Path(__file__).with_name("scaling.promtool.yaml")


def _triggers() -> dict[str, list[dict[str, Any]]]:
    """By pool."""
    scaled = of_kind(rendered("enterprise"), "ScaledObject")
    return {
        name.removeprefix("engine-"): entry["spec"]["triggers"] for name, entry in scaled.items()
    }


def test_a_pool_follows_its_own_requests_counted_once(tmp_path: Path) -> None:
    rules = [
        {"record": f"{pool}:{trigger['name']}", "expr": trigger["metadata"]["query"]}
        for pool, triggers in _triggers().items()
        for trigger in triggers
    ]
    assert len(rules) == 4
    document = {"groups": [{"name": "scaling", "rules": rules}]}
    (tmp_path / "scaling.rules.yaml").write_text(yaml.safe_dump(document))
    shutil.copy(_CASES, tmp_path)
    run_promtool("test", "rules", _CASES.name, cwd=tmp_path)


def test_a_query_without_an_answer_is_an_error_and_no_zero() -> None:
    for triggers in _triggers().values():
        assert [trigger["metadata"]["ignoreNullValues"] for trigger in triggers] == ["false"] * 2
        assert [trigger["metricType"] for trigger in triggers] == ["AverageValue"] * 2


def test_the_adapter_offers_the_metrics_that_the_autoscaler_asks_for() -> None:
    files = rendered("enterprise")
    rules = yaml.safe_load(files["alternatives/prometheus-adapter-rules.yaml"])["externalRules"]
    offered = {rule["name"]["as"]: rule["metricsQuery"] for rule in rules}
    # A series that exists before the first request: without it a metric is unknown, not 0.
    assert {rule["seriesQuery"] for rule in rules} == {"paceline_requests_in_flight"}
    asked = {}
    for name, scaler in of_kind(files, "HorizontalPodAutoscaler").items():
        triggers = _triggers()[name.removeprefix("engine-")]
        for metric, trigger in zip(scaler["spec"]["metrics"], triggers, strict=True):
            external, wanted = metric["external"], trigger["metadata"]
            assert external["target"]["averageValue"] == wanted["threshold"]
            asked[external["metric"]["name"]] = wanted["query"]
    assert asked == offered
