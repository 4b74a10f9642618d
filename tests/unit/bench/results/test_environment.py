"""The environment of a report: what it records, and what it leaves out."""

from __future__ import annotations

from paceline.bench.results.environment import render_command


def test_the_recorded_command_does_not_contain_the_api_key() -> None:
    assert (
        render_command(["/usr/bin/paceline", "bench", "run", "--api-key", "k", "--api-key=k"])
        == "paceline bench run --api-key '***' '--api-key=***'"
    )
