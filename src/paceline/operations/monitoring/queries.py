"""`MetricQueries`: PromQL expressions from the definitions of the gateway's metrics.

A metric that does not exist, one of the wrong kind, an unknown label, and a label value that no
series has are errors when the expression is built, not panels without data in production.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.runtime.gateway.metrics.definitions import Kind, MetricDefinition, metric_definitions

Where = Mapping[str, str | Sequence[str]]
"""By label: a regular expression, or the values of which one must match."""


class UnknownMetric(Exception):
    """The gateway has no such metric, label or label value, or it is of another kind."""


class MetricQueries:
    """Builds expressions; all methods return PromQL.

    >>> queries = MetricQueries()
    >>> queries.rate("paceline_requests_total", "5m", {"outcome": ("broken", "timed_out")})
    'rate(paceline_requests_total{outcome=~"broken|timed_out"}[5m])'
    >>> queries.gauge("paceline_requests_total")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ...
    UnknownMetric: paceline_requests_total is a counter, not a gauge
    """

    def __init__(self, definitions: Mapping[str, MetricDefinition] | None = None) -> None:
        """`definitions` are by name; None for those of the gateway."""
        self._definitions = metric_definitions() if definitions is None else definitions

    def gauge(self, name: str, where: Where | None = None) -> str:
        """The value now."""
        return self._select(name, "gauge", where)

    def counter(self, name: str, where: Where | None = None) -> str:
        """The count since the counter began."""
        return self._select(name, "counter", where)

    def gauge_over(self, function: str, name: str, window: str, where: Where | None = None) -> str:
        """A function such as max_over_time of the values in a window."""
        return f"{function}({self._select(name, 'gauge', where)}[{window}])"

    def rate(
        self, name: str, window: str, where: Where | None = None, *, without: Where | None = None
    ) -> str:
        """Increase per second of a counter; `without` leaves series out."""
        return f"rate({self._select(name, 'counter', where, without)}[{window}])"

    def increase(
        self, name: str, window: str, where: Where | None = None, *, without: Where | None = None
    ) -> str:
        """Increase of a counter in the window; `without` leaves series out."""
        return f"increase({self._select(name, 'counter', where, without)}[{window}])"

    def quantile(self, quantile: float, name: str, window: str, by: str = "") -> str:
        """A quantile of a histogram over all gateways; with `by`, for each value of that label."""
        self._define(name, "histogram")
        labels = f"{by}, le" if by else "le"
        return (
            f"histogram_quantile({quantile:g}, sum by ({labels}) (rate({name}_bucket[{window}])))"
        )

    def _select(
        self, name: str, kind: Kind, where: Where | None, without: Where | None = None
    ) -> str:
        definition = self._define(name, kind)
        matchers = [
            f'{label}{operator}"{_pattern(definition, label, wanted)}"'
            for operator, conditions in (("=~", where), ("!~", without))
            for label, wanted in (conditions or {}).items()
        ]
        return name + (f"{{{', '.join(matchers)}}}" if matchers else "")

    def _define(self, name: str, kind: Kind) -> MetricDefinition:
        definition = self._definitions.get(name)
        if definition is None:
            raise UnknownMetric(f"{name} is no metric of the gateway")
        if definition.kind != kind:
            raise UnknownMetric(f"{name} is a {definition.kind}, not a {kind}")
        return definition


def _pattern(definition: MetricDefinition, label: str, wanted: str | Sequence[str]) -> str:
    if label not in definition.labels:
        raise UnknownMetric(f"{definition.name} has no label {label}")
    if isinstance(wanted, str):
        return wanted
    missing = set(wanted) - set(definition.values.get(label, ()))
    if missing:
        raise UnknownMetric(f"{definition.name} has no {label} {sorted(missing)[0]}")
    return "|".join(wanted)
