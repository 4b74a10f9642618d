"""The dashboards for Grafana.

`DASHBOARDS` has them by file name, as functions from the queries to a `Dashboard`;
`model.render_dashboard` writes one as JSON.
"""

from collections.abc import Callable, Mapping

from paceline.operations.monitoring.dashboards.model import Dashboard
from paceline.operations.monitoring.dashboards.serving import serving
from paceline.operations.monitoring.dashboards.speculation import speculation
from paceline.operations.monitoring.queries import MetricQueries

DASHBOARDS: Mapping[str, Callable[[MetricQueries], Dashboard]] = {
    "paceline-serving.json": serving,
    "paceline-speculation.json": speculation,
}
