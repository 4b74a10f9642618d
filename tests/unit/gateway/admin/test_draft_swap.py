"""Drafts are swapped over the admin port: what is refused, and what happens to the engines."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest

from paceline.runtime.gateway import (
    CheckedDraft,
    DraftUnfit,
    EngineDraft,
    Replica,
    RunningGateway,
    serve_gateway,
)
from paceline.runtime.gateway.admin import draft_roll
from unit.gateway.conftest import SETTINGS, until


@pytest.fixture(autouse=True)
def short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_roll, "DRAFT_WATCH_S", 0.2)


@dataclass
class Engines:
    """Two engines in memory: their owner's side of the boundary, and what was done to them."""

    drafts: dict[str, str] = field(default_factory=lambda: {"engine-0": "old", "engine-1": "old"})
    states: dict[str, str] = field(default_factory=dict)
    """Other than ready."""
    pending: dict[str, str] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    failing: tuple[str, ...] = ()
    """Engines that do not start with another draft than their old one."""
    failures: dict[str, str] = field(default_factory=dict)
    is_hanging: bool = False
    """Whether no engine ends when it is restarted."""
    log: list[str] = field(default_factory=list)

    # As a `ReplicaSource`

    def replicas(self) -> Sequence[Replica]:
        return [
            Replica(
                name,
                "/none.sock",
                "m",
                self.states.get(name, "ready"),  # type: ignore[arg-type]
                num_restarts=self.restarts.get(name, 0),
                draft=draft,
            )
            for name, draft in self.drafts.items()
        ]

    # As `EngineDrafts`

    def engines(self) -> list[EngineDraft]:
        return [
            EngineDraft(
                name=name,
                state=self.states.get(name, "ready"),  # type: ignore[arg-type]
                draft=draft,
                next_draft=self.pending.get(name, draft),
                is_change_pending=name in self.pending,
                failure=self.failures.get(name),
            )
            for name, draft in self.drafts.items()
        ]

    def check(self, draft: str) -> CheckedDraft:
        if draft == "unfit":
            raise DraftUnfit("unfit has another vocabulary")
        return Checked(draft, self)

    def undo(self, engine: str) -> None:
        self.log.append(f"undo {engine}")
        self.pending.pop(engine, None)

    # As the supervisor

    def restart(self, name: str) -> None:
        """At once: drained, started again, ready."""
        if self.is_hanging:
            return
        others = [r for r in self.replicas() if r.name != name and r.state == "ready"]
        self.log.append(f"restart {name} with {self.pending[name]}, {len(others)} other ready")
        self.restarts[name] = self.restarts.get(name, 0) + 1
        new = self.pending.pop(name)
        if name in self.failing:
            self.failures[name] = "no memory"
            self.restarts[name] += 1
        else:
            self.drafts[name] = new


@dataclass
class Checked:
    draft: str
    owner: Engines
    why: str = "as asked"

    def use(self, engine: str) -> None:
        self.owner.pending[engine] = self.draft
        self.owner.failures.pop(engine, None)


@contextlib.asynccontextmanager
async def swapping(
    engines: Engines, audit_file: Path | None = None
) -> AsyncIterator[tuple[RunningGateway, httpx.AsyncClient]]:
    settings = SETTINGS
    if audit_file is not None:
        settings = replace(settings, keys=replace(settings.keys, audit_file=audit_file))
    async with (
        serve_gateway(settings, engines, on_restart=engines.restart, drafts=engines) as gateway,
        httpx.AsyncClient(base_url=gateway.admin_url, timeout=60) as admin,
    ):
        yield gateway, admin


async def swap(admin: httpx.AsyncClient, draft: str = "new", **more: object) -> httpx.Response:
    return await admin.post("/admin/draft", json={"draft": draft, **more})


async def test_all_engines_are_swapped_and_the_progress_is_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engines = Engines()
    async with swapping(engines, tmp_path / "audit") as (gateway, admin):
        begun = await swap(admin)
        assert (begun.status_code, begun.json()["swap"]["state"]) == (202, "running")
        await until(lambda: not gateway.is_swapping_draft)
        shown = (await admin.get("/admin/draft")).json()
        assert [one["draft"] for one in shown["replicas"]] == ["new", "new"]
        done = shown["swap"]
        assert (done["state"], done["reason"], done["draft"]) == ("completed", None, "new")
        assert done["ended_at"] >= done["begun_at"]
        assert done["replicas"] == [
            {"name": name, "phase": "swapped", "reason": None, "draft_before": "old"}
            for name in ("engine-0", "engine-1")
        ]
        listed = (await admin.get("/admin/replicas")).json()["replicas"]
        assert [(one["draft"], one["state"]) for one in listed] == [("new", "ready")] * 2
    assert engines.log == [
        f"restart {name} with new, 1 other ready" for name in ("engine-0", "engine-1")
    ]
    assert '"draft":"new"' in (tmp_path / "audit").read_text()
    events = [record.getMessage() for record in caplog.records if "draft" in record.getMessage()]
    assert "swapping the draft of engine-0, engine-1 to new" in events[0]
    assert "the draft was swapped" in events[-1]


async def test_an_engine_that_does_not_start_with_it_stops_the_swap(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engines = Engines(failing=("engine-1",))
    async with swapping(engines) as (gateway, admin):
        await swap(admin)
        await until(lambda: not gateway.is_swapping_draft)
        shown = (await admin.get("/admin/draft")).json()
    assert engines.drafts == {"engine-0": "new", "engine-1": "old"}
    done = shown["swap"]
    assert (done["state"], [one["phase"] for one in done["replicas"]]) == (
        "stopped", ["swapped", "restored"],
    )  # fmt: skip
    assert done["reason"] == "engine-1: it did not start with the new draft: no memory"
    assert any(
        "stopped: engine-1: it did not start with the new draft: no memory. With the new draft: "
        "engine-0" in record.getMessage()
        for record in caplog.records
    )


async def test_a_swap_can_be_repeated_after_a_failure() -> None:
    engines = Engines(failing=("engine-0",))
    async with swapping(engines) as (gateway, admin):
        await swap(admin)
        await until(lambda: not gateway.is_swapping_draft)
        assert engines.drafts == {"engine-0": "old", "engine-1": "old"}
        engines.failing = ()
        assert (await swap(admin)).status_code == 202
        await until(lambda: not gateway.is_swapping_draft)
    assert engines.drafts == {"engine-0": "new", "engine-1": "new"}


@pytest.mark.parametrize(
    ("body", "code", "param", "message"),
    [
        ({"draft": "unfit"}, "draft_refused", "draft", "another vocabulary. Nothing was changed"),
        ({}, "invalid_value", "draft", "draft must be a folder"),
        ({"draft": 3}, "invalid_value", "draft", "draft must be a folder"),
        ({"draft": ""}, "invalid_value", "draft", "draft must be a folder"),
        ({"draft": "new", "allow_outage": 1}, "invalid_value", "allow_outage", "true or false"),
        ({"draft": "new", "replica": "a"}, "unknown_field", "replica", "draft, allow_outage"),
    ],
)
async def test_an_invalid_request_gets_a_400_and_changes_nothing(
    body: dict[str, object], code: str, param: str, message: str
) -> None:
    engines = Engines()
    async with swapping(engines) as (gateway, admin):
        answer = await admin.post("/admin/draft", json=body)
        assert not gateway.is_swapping_draft
        assert (await admin.get("/admin/draft")).json()["swap"] is None
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, code, param)
    assert message in error["message"]
    assert (engines.log, engines.pending) == ([], {})


async def test_during_a_swap_no_other_change_of_the_engines_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(draft_roll, "DRAFT_WATCH_S", 1000.0)
    engines = Engines()
    async with swapping(engines) as (_, admin):
        await swap(admin)
        again = await swap(admin, "other")
        restart = await admin.patch("/admin/replicas", json={"name": "engine-1", "restart": True})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "draft_not_swappable")
    assert "being swapped already" in again.json()["error"]["message"]
    assert (restart.status_code, restart.json()["error"]["code"]) == (
        409, "replica_not_restartable",
    )  # fmt: skip


async def test_a_swap_does_not_begin_during_a_restart() -> None:
    engines = Engines()
    async with swapping(engines) as (_, admin):
        engines.is_hanging = True
        await admin.patch("/admin/replicas", json={"name": "engine-0", "restart": True})
        answer = await swap(admin)
    assert answer.status_code == 409
    assert "engine-0 is being restarted" in answer.json()["error"]["message"]


async def test_the_only_ready_replica_is_swapped_only_if_an_outage_is_allowed() -> None:
    engines = Engines(drafts={"engine-0": "old"})
    async with swapping(engines) as (gateway, admin):
        refused = await swap(admin)
        assert refused.status_code == 409
        assert "engine-0 is the only ready replica" in refused.json()["error"]["message"]
        assert '"allow_outage": true' in refused.json()["error"]["message"]
        assert not engines.log
        assert (await swap(admin, allow_outage=True)).status_code == 202
        await until(lambda: not gateway.is_swapping_draft)
    assert engines.log == ["restart engine-0 with new, 0 other ready"]
    assert engines.drafts == {"engine-0": "new"}


async def test_an_engine_that_is_down_comes_first() -> None:
    """It may be down because of its draft, and the others wait until it serves."""
    engines = Engines(states={"engine-1": "down"})
    async with swapping(engines) as (gateway, admin):
        answer = await swap(admin)
        assert [one["name"] for one in answer.json()["swap"]["replicas"]] == [
            "engine-1", "engine-0",
        ]  # fmt: skip
        await until(lambda: engines.pending == {"engine-1": "new"})
        assert engines.log == []
        engines.drafts["engine-1"] = engines.pending.pop("engine-1")  # its next start
        engines.states.clear()
        await until(lambda: not gateway.is_swapping_draft)
    assert engines.drafts == {"engine-0": "new", "engine-1": "new"}


async def test_a_gateway_without_engines_refuses() -> None:
    async with (
        serve_gateway(SETTINGS, Engines()) as gateway,
        httpx.AsyncClient(base_url=gateway.admin_url, timeout=60) as admin,
    ):
        assert (await admin.get("/admin/draft")).json() == {"replicas": [], "swap": None}
        answer = await swap(admin)
    assert answer.status_code == 409
    assert "no engines of its own" in answer.json()["error"]["message"]
