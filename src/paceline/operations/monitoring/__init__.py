"""Alert rules for Prometheus and dashboards for Grafana, generated from the gateway's metrics.

Pure: the same options give the same bytes. `command` writes the files. Expressions are built by
`queries.MetricQueries`, which refuses a metric, a label or a value that the gateway does not have.
"""
