"""The gateway's metrics.

For other packages: `metrics.GatewayMetrics` with its recording methods,
`request_times.RequestTimes` (the times of one request), `metrics.Continuation`, and
`definitions.metric_definitions`, every metric as a value. `samples` sums the metrics of several
processes; `replica_metrics` reads metrics of replicas at a scrape.
"""
