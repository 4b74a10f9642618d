"""The definitions as values are those that the metrics page shows."""

from __future__ import annotations

import re

from paceline.runtime.gateway.metrics.definitions import metric_definitions
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.outcomes import Outcome
from unit.gateway.metrics.test_metrics import NAMES, rendered

DEFINITIONS = metric_definitions()


def test_every_metric_of_the_page_is_defined_with_its_kind_and_help() -> None:
    page = rendered(GatewayMetrics())
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", page, re.MULTILINE))
    shown = {name: kind for name, kind in kinds.items() if not name.endswith("_created")}
    assert {name: metric.kind for name, metric in DEFINITIONS.items()} == shown
    assert {name: metric.help for name, metric in DEFINITIONS.items()} == {
        name: helps[name] for name in shown
    }
    assert set(shown) >= NAMES


def test_labels_and_their_known_values_are_listed() -> None:
    requests = DEFINITIONS["paceline_requests_total"]
    assert requests.labels == ("outcome",)
    assert requests.values == {"outcome": tuple(outcome.value for outcome in Outcome)}
    assert DEFINITIONS["paceline_queue_seconds"].labels == ()
    assert DEFINITIONS["paceline_breaker_state"].labels == ("replica",)
    assert DEFINITIONS["paceline_draft_drift_acceptance"].labels == ("replica", "category")
    assert DEFINITIONS["paceline_governor_last_change_info"].labels == ("replica", "reason")
