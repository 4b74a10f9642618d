"""Acceptance after drafting was off: a collapse is a clear fall, and noise is not."""

from __future__ import annotations

import pytest

from paceline.workbench.audit.checks.acceptance import AcceptanceResult, check_acceptance, falls
from paceline.workbench.audit.prompts import PROMPTS
from paceline.workbench.audit.server.server import Server
from unit.audit.simulated import Drafting, WithoutDrafts


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([2.0, 2.2, 1.8, 2.1], [0.3, 0.2, 0.4, 0.3], True),
        ([2.0, 2.2, 1.8, 2.1], [1.9, 2.1, 2.0, 2.0], False),
        ([2.0, 2.2, 1.8, 2.1], [1.2, 1.3, 1.2, 1.1], False),  # lower, but more than half
        ([3.0, 0.1, 0.2, 0.1], [0.1, 0.6, 0.1, 0.1], False),  # one prompt makes the difference
        ([2.0], [0.1], False),
    ],
)
def test_a_collapse_is_a_clear_fall_to_less_than_half(
    before: list[float], after: list[float], expected: bool
) -> None:
    assert falls(before, after) is expected


@pytest.mark.parametrize("stale", [False, True])
async def test_a_stale_draft_cache_shows_as_a_collapse(stale: bool) -> None:
    server = Server(Drafting(stale=stale), url="http://m")
    support = await server.probe()
    assert support.off_switch == "speculation"
    result = AcceptanceResult()
    await check_acceptance(server, PROMPTS, result)
    assert result.after_drafting == [3.0] * 5
    assert result.after_off == [0.0 if stale else 3.0] * 5
    assert result.collapses is stale


async def test_without_a_switch_nothing_is_measured_and_the_reason_is_kept() -> None:
    server = Server(WithoutDrafts(), url="http://m")
    await server.probe()
    result = AcceptanceResult()
    await check_acceptance(server, PROMPTS, result)
    assert result.why_not == "no drafts were seen in streams"
    assert not result.collapses
