"""The live view at /dashboard: what the gateway knows, once a second, for operators to watch.

For other packages: `live_view.LiveView` (samples, keeps the history, publishes) and
`routes.DashboardRoutes` (the HTTP side, part of the admin port).

Inside, `values` has the values; `readings`, `percentiles`, `replica_views`, `snapshot`,
`position_acceptance`, `events`, `history` and `documents` are pure; `live_view` reads the clock
and the replicas, and `viewers`, `sessions`, `assets` and `routes` answer HTTP.
"""
