"""What was set on a fleet's governors returns, on every replica that can be reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from yarl import URL

from paceline.foundation.servers.governor import page as governor_page
from paceline.foundation.servers.governor import switch as governor_switch
from paceline.foundation.servers.governor.switch import (
    ChangedByOther,
    GovernorSwitch,
    RestoreFailed,
    SettingRefused,
    SwitchUnavailable,
    switchable_governor,
)
from unit.bench.governor.governed_fleet import GOODPUT, GovernedFleet

OFF = {"policy": "fixed", "policy_parameters": {"draft_length": 0}, "draft_length": 0}


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> GovernedFleet:
    monkeypatch.setattr(governor_switch, "_BETWEEN_ATTEMPTS_S", 0.01)
    return GovernedFleet()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as one:
        yield one


class _Use:
    """A switch on a served fleet, with what it reported."""

    def __init__(self, fleet: GovernedFleet, session: aiohttp.ClientSession) -> None:
        self.fleet, self.session = fleet, session
        self.reports: list[str] = []

    async def __call__(
        self, work: object = GovernorSwitch.turn_off, model: str | None = None
    ) -> None:
        async with self.fleet.server() as server:
            url = URL(str(server.make_url("/")).rstrip("/"))
            async with switchable_governor(
                self.session, url, "key", model, self.reports.append
            ) as switch:
                await work(switch)  # type: ignore[operator]


@pytest.fixture
def use(fleet: GovernedFleet, session: aiohttp.ClientSession) -> _Use:
    return _Use(fleet, session)


async def test_a_replica_that_restarts_holds_up_no_other(use: _Use, fleet: GovernedFleet) -> None:
    """r0 is starting when its setting returns; r1 and r2 are restored at once, r0 when it is up."""

    async def work(switch: GovernorSwitch) -> None:
        await switch.turn_off()
        assert list(fleet.states.values()) == [OFF] * 3
        fleet.errors["r0"] = "the replica is starting"
        fleet.num_failing_reads["r0"] = 4

    await use(work)
    assert list(fleet.states.values()) == [GOODPUT] * 3
    assert [name for name, change in fleet.changes if "policy" in change] == ["r1", "r2", "r0"]
    assert use.reports[0].startswith("Restoring the governors of r0, for at most 90 s")


async def test_after_the_deadline_the_replicas_and_commands_are_named(
    use: _Use, fleet: GovernedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(governor_switch, "_RESTORE_WITHIN_S", 0.2)

    async def work(switch: GovernorSwitch) -> None:
        await switch.turn_off()
        fleet.errors["r1"] = "the replica is down"

    with pytest.raises(RestoreFailed):
        await use(work)
    assert [fleet.states[name] for name in ("r0", "r1", "r2")] == [GOODPUT, OFF, GOODPUT]
    report = use.reports[-1]
    assert "governors of 1 replicas could not be restored" in report
    assert "?replica=r1" in report
    assert """-d '{"policy": "goodput"}'   # r1: the replica is down""" in report
    assert "Bearer $PACELINE_ADMIN_KEY" in report


async def test_a_cancellation_has_the_failure_as_its_cause(
    use: _Use, fleet: GovernedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(governor_switch, "_RESTORE_WITHIN_S", 0.2)

    async def work(switch: GovernorSwitch) -> None:
        await switch.turn_off()
        fleet.errors["r1"] = "the replica is down"
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError) as caught:
        await use(work)
    assert isinstance(caught.value.__cause__, RestoreFailed)


async def test_a_second_cancellation_waits_for_the_restoration(
    use: _Use, fleet: GovernedFleet
) -> None:
    is_off = asyncio.Event()

    async def work(switch: GovernorSwitch) -> None:
        await switch.turn_off()
        fleet.errors["r0"] = "the replica is starting"
        fleet.num_failing_reads["r0"] = 20
        is_off.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(use(work))
    await is_off.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.02)  # sleep: of virtual time
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(fleet.states.values()) == [GOODPUT] * 3


async def test_a_ready_replica_without_a_state_is_not_switched(
    use: _Use, fleet: GovernedFleet
) -> None:
    fleet.errors["r1"] = "no answer within 1 s"
    with pytest.raises(SwitchUnavailable, match="governor of r1 cannot be read: no answer"):
        await use()
    assert fleet.changes == []


async def test_a_starting_replica_is_left_alone(use: _Use, fleet: GovernedFleet) -> None:
    fleet.errors["r1"], fleet.entries["r1"] = "the replica is starting", {"state": "starting"}
    await use()
    assert {name for name, _ in fleet.changes} == {"r0", "r2"}


async def test_only_replicas_of_the_model_are_switched(use: _Use, fleet: GovernedFleet) -> None:
    fleet.entries = {"r0": {"model": "a"}, "r1": {"model": "b"}}
    await use(model="a")
    assert {name for name, _ in fleet.changes} == {"r0", "r2"}


async def test_what_was_set_returns_and_not_the_last_plan(use: _Use, fleet: GovernedFleet) -> None:
    """r0 is fixed at 4 and plans 1; r1 is fixed by its configuration; r2 has a table."""
    table = {"schedule": [[1, 3]]}
    fleet.states = {
        "r0": {"policy": "fixed", "policy_parameters": {"draft_length": 4}, "draft_length": 1},
        "r1": {"policy": "fixed", "policy_parameters": {}, "draft_length": 1},
        "r2": {"policy": "schedule", "policy_parameters": table, "draft_length": 0},
    }
    await use()
    assert fleet.changes[3:] == [
        ("r0", {"draft_length": 4}),
        ("r1", {"policy": "fixed"}),
        ("r2", {"policy": "schedule", "policy_parameters": table}),
    ]


async def test_an_engine_that_does_not_report_its_setting_is_not_switched(
    use: _Use, fleet: GovernedFleet
) -> None:
    fleet.states["r1"] = {"policy": "fixed", "draft_length": 1}
    with pytest.raises(SwitchUnavailable, match="r1 does not report what was set"):
        await use()
    assert fleet.changes == []


async def test_a_change_by_another_stops_the_switch_and_stays(
    use: _Use, fleet: GovernedFleet
) -> None:
    """An operator fixes r1 at 5: r0 and r2 are restored, r1 keeps the operator's length."""

    async def work(switch: GovernorSwitch) -> None:
        await switch.turn_off()
        fleet.set("r1", {"draft_length": 5})
        num_changes = len(fleet.changes)
        with pytest.raises(ChangedByOther, match="the governor of r1 was set by another"):
            await switch.turn_on()
        with pytest.raises(ChangedByOther):
            await switch.turn_off()
        assert len(fleet.changes) == num_changes

    with pytest.raises(ChangedByOther):
        await use(work)
    assert [fleet.states[name]["policy"] for name in ("r0", "r1", "r2")] == [
        "goodput", "fixed", "goodput",
    ]  # fmt: skip
    assert fleet.states["r1"]["draft_length"] == 5


async def test_a_ceiling_is_set_and_returns_with_the_policy(
    use: _Use, fleet: GovernedFleet
) -> None:
    """Where a change names no ceiling, the one that was found is in force again."""
    fleet.states = {"r0": {**GOODPUT, "ceiling": 8}}

    async def work(switch: GovernorSwitch) -> None:
        await switch.apply({"draft_length": 1, "ceiling": 2})
        await switch.apply({"draft_length": 6})
        await switch.apply({"ceiling": 3})

    await use(work)
    assert fleet.changes == [
        ("r0", {"draft_length": 1, "ceiling": 2}),
        ("r0", {"draft_length": 6, "ceiling": 8}),
        ("r0", {"policy": "goodput", "ceiling": 3}),
        ("r0", {"policy": "goodput", "ceiling": 8}),
    ]


async def test_a_ceiling_of_another_stays_and_the_policy_returns(
    use: _Use, fleet: GovernedFleet
) -> None:
    fleet.states = {"r0": {**GOODPUT, "ceiling": 8}}

    async def work(switch: GovernorSwitch) -> None:
        await switch.turn_off()
        fleet.set("r0", {"ceiling": 4})

    with pytest.raises(ChangedByOther, match="the governor of r0 was set by another"):
        await use(work)
    assert fleet.states["r0"] == {**GOODPUT, "ceiling": 4}


async def test_a_refused_change_has_the_words_of_the_server(
    use: _Use, fleet: GovernedFleet
) -> None:
    async def work(switch: GovernorSwitch) -> None:
        fleet.refusal = "r0: the longest is 8"
        with pytest.raises(SettingRefused, match="longest is 8"):
            await switch.apply({"draft_length": 9})
        fleet.refusal = None

    await use(work)
    assert list(fleet.states.values()) == [GOODPUT] * 3


async def test_replicas_without_a_governor_are_named(use: _Use, fleet: GovernedFleet) -> None:
    fleet.errors["r1"] = "the replica has no control channel"
    fleet.entries["r1"] = {"has_governor": False}

    async def work(switch: GovernorSwitch) -> None:
        assert switch.left_out == {"r1": "the replica has no control channel"}
        assert set(switch.found) == {"r0", "r2"}

    await use(work)


@pytest.mark.parametrize(
    ("steps", "expected"), [((3, 4, 5), 12), ((3, None, 5), None), ((None, None, None), None)]
)
async def test_steps_are_known_where_all_governors_report_them(
    use: _Use, fleet: GovernedFleet, steps: tuple[int | None, ...], expected: int | None
) -> None:
    for state, count in zip(fleet.states.values(), steps, strict=True):
        state["steps_total"] = count

    async def work(switch: GovernorSwitch) -> None:
        assert await switch.num_steps() == expected

    await use(work)


async def test_redirects_are_not_followed(use: _Use, fleet: GovernedFleet) -> None:
    fleet.redirects = True
    async with use.fleet.server() as server:
        page = governor_page.GovernorPage(use.session, URL(str(server.make_url("/"))), None)
        with pytest.raises(SwitchUnavailable, match="status 307"):
            await page.send({"draft_length": 0}, "r0")


async def test_a_long_answer_is_refused(
    use: _Use, fleet: GovernedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(governor_page, "_MAX_ANSWER_BYTES", 100)
    with pytest.raises(SwitchUnavailable, match="answered with more than"):
        await use()
