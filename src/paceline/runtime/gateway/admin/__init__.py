"""The admin port: metrics, governors and replicas, for operators.

For other packages: `admin_app.AdminApp` (the ASGI application), `governor_changes.GovernorChanges`
(accepted changes, to repeat them after an engine restart) and `governor_control.send_to_governor`
(one request to a governor). `engine_drafts.EngineDrafts` is what the owner of the engines provides.
"""
