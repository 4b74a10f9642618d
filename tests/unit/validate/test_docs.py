"""The how-to page lists every check and every tier as they are."""

from __future__ import annotations

from pathlib import Path

from paceline.operations.validate.checks import CHECKS
from paceline.operations.validate.tiers import tiers

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "validate.md").read_text()


def test_every_check_is_listed_in_order() -> None:
    listed = [line for line in PAGE.splitlines() if line.startswith("| `")]
    rows = [f"| `{check.id}` | {check.proves} |" for check in CHECKS]
    found = [line for line in listed if any(line.startswith(row) for row in rows)]
    assert [line.split("`")[1] for line in found] == [check.id for check in CHECKS]


def test_every_tier_is_listed_with_its_limits() -> None:
    for tier in tiers().values():
        limits = f"{tier.ttft_p99_ms:g} ms | {tier.tpot_p99_ms:g} ms"
        load = f"{tier.concurrency} x {tier.num_requests:,} requests of {tier.max_tokens} tokens"
        assert f"| `{tier.name}` | {load} | {limits} |" in PAGE
