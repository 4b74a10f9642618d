"""The admin port: metrics, governors and replicas, for operators.

For other rooms: `admin_app.AdminApp` (the ASGI application), `governor_changes.GovernorChanges`
(accepted changes, to repeat them after an engine restart) and `governor_control.ask` (one request
to a governor).
"""
