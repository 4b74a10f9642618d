"""Two settings of one server in turns, in virtual time with real sockets."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.config import BenchError
from paceline.foundation.servers.governor import switch as governor_switch
from paceline.workbench.bench.compare import measure
from paceline.workbench.bench.compare.block_runner import HttpBlockRunner
from paceline.workbench.bench.compare.config import CompareConfig
from paceline.workbench.bench.compare.contrasts import Arm, Figure
from paceline.workbench.bench.compare.measure import Comparison, compare, finish, new_comparison
from paceline.workbench.bench.compare.verdict import Verdict
from unit.bench.governor.conftest import clocks_of_the_event_loop, governed
from unit.bench.governor.governed_server import GovernedServer
from unit.bench.trace.virtual_time import now_s

__all__ = ["clocks_of_the_event_loop", "governed"]


@pytest.fixture(autouse=True)
def _virtual_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in (HttpBlockRunner, StreamingClient):
        monkeypatch.setattr(measure, part.__name__, partial(part, clock=now_s))


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "abc"}')
    return str(file)


def comparison_of(server: GovernedServer, prompts: str, a: str, b: str) -> Comparison:
    """For 15 s of virtual time: a round takes 0.6 s, a fifth of it with drafts."""
    config = CompareConfig(
        server.url, None, settings=(a, b), admin_url=server.url, prompts_file=prompts,
        block_s=0.15, max_minutes=0.25,
    )  # fmt: skip
    return new_comparison(config, ["compare"])


async def carry_out(comparison: Comparison) -> None:
    await compare(comparison, None, None, lambda campaign: None)
    finish(comparison, is_interrupted=False)


async def test_the_faster_setting_is_found_and_the_policy_restored(
    governed: GovernedServer, prompts: str
) -> None:
    """A token takes 16 ms without drafts and 2 ms with them, so its time falls by 7/8."""
    comparison = comparison_of(governed, prompts, "off", "on")
    await carry_out(comparison)
    judgement = comparison.campaign.judgements[-1]
    assert judgement.verdict is Verdict.FASTER
    assert judgement.difference[Figure.TPOT_MS].relative == pytest.approx(-7 / 8, rel=0.01)
    assert judgement.difference[Figure.TTFT_MS].relative == pytest.approx(-7 / 8, rel=0.05)
    assert governed.policy == "goodput"
    a, b = comparison.arms[Arm.A], comparison.arms[Arm.B]
    assert (a.subject, a.setting) == (b.subject, "off") == (governed.url, "off")
    assert a.governors == {"engine-0": {"draft_length": 0}}
    assert b.governors == {"engine-0": {"policy": "goodput"}}


async def test_every_block_has_the_setting_of_its_arm(
    governed: GovernedServer, prompts: str
) -> None:
    """Both arms draft; the server is switched before each block, after one of the same arm too."""
    comparison = comparison_of(governed, prompts, "draft_length=2", "draft_length=5")
    await carry_out(comparison)
    by_salt = groupby(
        zip(governed.bodies, governed.lengths, strict=True), lambda one: one[0]["cache_salt"]
    )
    blocks = {
        salt.rpartition("compare-")[2][37:]: {one[1] for one in ones} for salt, ones in by_salt
    }
    for block in (block for one in comparison.campaign.rounds for block in one.blocks):
        expected = 2 if block.arm is Arm.A else 5
        assert blocks[f"{block.round_index}-{block.position}"] == {expected}
    num_blocks = 4 * (1 + len(comparison.campaign.rounds))
    num_before_and_after = 2 + 2 + 1
    """Whether both are accepted, the pilots, and the restoration."""
    assert len(governed.changes) == num_blocks + num_before_and_after
    assert governed.policy == "goodput"


async def test_a_cancelled_comparison_restores_the_policy(
    governed: GovernedServer, prompts: str
) -> None:
    comparison = comparison_of(governed, prompts, "on", "off")

    def cancel(campaign: object) -> None:
        task.cancel()

    task = asyncio.create_task(compare(comparison, None, None, cancel))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(comparison.campaign.rounds) == 1
    assert governed.policy == "goodput"
    assert comparison.restore_failure is None


async def test_governors_that_keep_a_setting_are_noted(
    governed: GovernedServer, prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change after the last block is refused; what was measured stays."""
    monkeypatch.setattr(governor_switch, "_RESTORE_WITHIN_S", 3.0)
    comparison = comparison_of(governed, prompts, "draft_length=2", "off")

    def refuse_after_the_end(campaign: object) -> None:
        if comparison.campaign.judgements:
            governed.num_refused = 1000

    await compare(comparison, None, None, refuse_after_the_end)
    finish(comparison, is_interrupted=False)
    assert comparison.campaign.judgements[-1].verdict is Verdict.SLOWER
    assert comparison.restore_failure is not None
    assert "could not be restored" in comparison.restore_failure
    assert comparison.notes[-1].startswith("governors keep the setting of an arm")


async def test_a_failed_restoration_does_not_hide_why_the_comparison_ended(
    governed: GovernedServer, prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(governor_switch, "_RESTORE_WITHIN_S", 3.0)
    comparison = comparison_of(governed, prompts, "draft_length=2", "off")

    def refuse(campaign: object) -> None:
        governed.num_refused = 1000

    with pytest.raises(BenchError, match="answered with status 503"):
        await compare(comparison, None, None, refuse)
    assert comparison.restore_failure is not None


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        (("off", "on"), {"policy": "fixed", "draft_length": 0}, "B is 'on', the setting .* off on"),
        (
            ("off", "on"),
            {"has_governor": False},
            "the server does not draft; engine-0: the replica",
        ),
        (("off", "on"), {"steps_total": 7}, "made no step while http"),
        (
            ("off", "policy=best"),
            {"refused_policy": "best"},
            "B is 'policy=best', which .* refuses",
        ),
    ],
)
async def test_what_cannot_be_compared_is_refused_and_restored(
    governed: GovernedServer,
    prompts: str,
    settings: tuple[str, str],
    changes: dict[str, object],
    message: str,
) -> None:
    for name, value in changes.items():
        setattr(governed, name, value)
    before = governed.state
    with pytest.raises(BenchError, match=message):
        await carry_out(comparison_of(governed, prompts, *settings))
    assert governed.state == before


async def test_a_comparison_that_another_disturbs_is_void(
    governed: GovernedServer, prompts: str
) -> None:
    comparison = comparison_of(governed, prompts, "off", "on")

    def disturb(campaign: object) -> None:
        governed.policy, governed.draft_length = "fixed", 5

    with pytest.raises(BenchError, match="void: the governor of engine-0 was set by another"):
        await compare(comparison, None, None, disturb)
    assert (governed.policy, governed.draft_length) == ("fixed", 5)
