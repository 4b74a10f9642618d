"""Run one request: its steps, its attempts on replicas, and what follows a failed attempt.

Other packages use `RequestRunner` and `GatewayServices` (the data port), `LeaseTable`,
`RetryBudget` and `Upstreams` (what the services are made of) and `Traffic` (what the admin port
reads).
"""
