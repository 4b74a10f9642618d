"""The checks: pure functions of `StartupFacts`. For other rooms: `registry.judge`, `CHECKS`."""
