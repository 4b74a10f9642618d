"""Observe a server, with a probe if one is asked for, and judge what was read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from paceline.foundation.load.config import BenchError
from paceline.foundation.servers.default_addresses import DATA_PORT, at_port
from paceline.foundation.servers.described import fetch_version
from paceline.foundation.servers.governor.switch import RestoreFailed, serves_model
from paceline.operations.doctor.checks import judge, judge_log_only
from paceline.operations.doctor.errors import DoctorError
from paceline.operations.doctor.estimates.money import MachinePrice, MoneyLost, money_lost
from paceline.operations.doctor.fixing.applying import try_fix
from paceline.operations.doctor.fixing.choice import FixResult, choose_fix
from paceline.operations.doctor.observing.local_machine import read_local_cpu
from paceline.operations.doctor.observing.log_file import read_log
from paceline.operations.doctor.observing.monitor_files import read_monitors
from paceline.operations.doctor.observing.server import ObservedServer
from paceline.operations.doctor.observing.watching import Watch, require_two, watch
from paceline.operations.doctor.probing.load import prepare_load, send_load
from paceline.operations.doctor.probing.probe import measure_drafts
from paceline.operations.doctor.probing.settings import ProbeSettings
from paceline.operations.doctor.readings.local_cpu import LocalCpu
from paceline.operations.doctor.readings.monitors import MonitorFile
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.readings.probe_result import ProbeResult
from paceline.operations.doctor.values import Diagnosis, Finding, OnStage
from paceline.runtime.config.tree import DEFAULT_MAX_PAUSE_MS

_IDLE_STATES = ("down", "starting")
"""Of replicas that give no tokens; a finding of its own states what they cost."""


@dataclass(frozen=True, slots=True)
class DoctorConfig:
    """What to diagnose."""

    url: URL
    seconds: float
    log_file: Path | None = None
    admin_key: str | None = None
    probe: ProbeSettings | None = None
    """None: no requests are sent."""
    fixes: bool = False
    """Whether to change the governors; it needs `probe`."""
    price: MachinePrice | None = None
    """None: no money is stated."""
    rules: tuple[Path, ...] = ()
    """Rule files of Prometheus."""
    dashboards: tuple[Path, ...] = ()
    """Dashboards of Grafana."""
    max_pause_ms: float = DEFAULT_MAX_PAUSE_MS
    """Longest pause between two tokens of an answer that users accept."""


@dataclass(slots=True)
class Visit:
    """What is known so far. An interruption leaves it filled as far as it came."""

    config: DoctorConfig
    kind: str | None = None
    version: str | None = None
    local_cpu: LocalCpu | None = None
    monitors: Sequence[MonitorFile] = ()
    watch: Watch = field(default_factory=Watch)
    log_lines: Sequence[str] | None = None
    probe: ProbeResult | None = None
    fix: FixResult | None = None
    """None if none was asked for."""
    is_interrupted: bool = False
    unreachable: str | None = None
    """Why only the log was judged."""
    restore_failure: str | None = None
    """Which governors keep a setting of the doctor, and the commands that restore them."""
    notes: list[str] = field(default_factory=list)

    @property
    def is_disturbed(self) -> bool:
        """Whether another program or an operator set a governor while it was measured."""
        of_probe = self.probe is not None and self.probe.is_disturbed
        return of_probe or (self.fix is not None and self.fix.is_disturbed)

    @property
    def duration_s(self) -> float:
        readings = self.watch.readings
        return readings[-1].at_s - readings[0].at_s if len(readings) > 1 else 0.0


async def visit_server(visit: Visit, on_stage: OnStage = lambda stage: None) -> None:
    """Fill the visit in.

    Raises DoctorError if the server, the log, or a file of rules or panels cannot be read. A server
    that cannot be reached is no error if there is a log: an engine that did not start answers
    nothing.
    """
    config = visit.config
    if config.log_file is not None:
        visit.log_lines = read_log(config.log_file)
    visit.monitors = read_monitors(config.rules, config.dashboards)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
    ) as session:
        server = ObservedServer(session, config.url, config.admin_key)
        try:
            await server.identify()
        except DoctorError as error:
            if visit.log_lines is None:
                raise
            visit.unreachable = str(error)
            return
        visit.kind = server.kind
        visit.version = await fetch_version(session, config.url)
        visit.local_cpu = await asyncio.to_thread(read_local_cpu, config.url)
        if config.probe is None:
            stop = asyncio.Event()
            stop.set()
            on_stage(f"observing for {config.seconds:g} s")
            await watch(server, visit.watch, stop, config.seconds)
        else:
            if server.kind == "paceline" and config.probe.data_url == config.url:
                raise DoctorError(
                    "--probe sends requests to the port that takes them: give --data-url, by "
                    f"default {at_port(str(config.url), DATA_PORT)}"
                )
            try:
                await _probe(visit, session, server, config.probe, on_stage)
            except BenchError as error:
                raise DoctorError(f"--probe: {error}") from error


async def _probe(
    visit: Visit,
    session: aiohttp.ClientSession,
    server: ObservedServer,
    settings: ProbeSettings,
    on_stage: OnStage,
) -> None:
    """Watch the server under the load, then measure what drafts gain."""
    stop = asyncio.Event()
    # It reads before the first request, so that the first requests are seen.
    watching = asyncio.create_task(watch(server, visit.watch, stop, settings.seconds))
    try:
        on_stage("sending the first request")
        load = await prepare_load(session, settings)
        await send_load(load, settings, on_stage)
        stop.set()
        await watching
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    on_stage(f"comparing with and without drafts for about {settings.seconds:g} s")
    with _noting_restore_failure(visit):
        visit.probe = await measure_drafts(
            session, server, load, settings, visit.watch.readings, visit.config.admin_key
        )


@contextlib.contextmanager
def _noting_restore_failure(visit: Visit) -> Iterator[None]:
    """What was read is judged and written also if governors could not be restored."""
    try:
        yield
    except RestoreFailed as failure:
        visit.restore_failure = str(failure)
    except asyncio.CancelledError as cancellation:
        if isinstance(cancellation.__cause__, RestoreFailed):
            visit.restore_failure = str(cancellation.__cause__)
        raise


def diagnose(visit: Visit) -> Diagnosis:
    """Judge what was read. Raises DoctorError if that is too little."""
    if visit.unreachable is None:
        try:
            require_two(visit.watch)
        except DoctorError as error:
            if visit.log_lines is None:
                raise
            visit.unreachable = str(error)
    if visit.unreachable is not None:
        assert visit.log_lines is not None
        return judge_log_only(visit.log_lines, f"the server was not read: {visit.unreachable}")
    assert visit.kind is not None
    if visit.watch.failures:
        visit.notes.append(
            f"{len(visit.watch.failures)} readings failed, the last one because "
            f"{visit.watch.failures[-1]}"
        )
    watched = visit.watch
    return judge(
        Observation(
            visit.kind,
            watched.readings,
            visit.log_lines,
            visit.probe,
            watched.lost,
            visit.version,
            visit.local_cpu,
            visit.monitors,
            visit.config.max_pause_ms,
        )
    )


async def fix_server(visit: Visit, diagnosis: Diagnosis) -> None:
    """Try the change that answers the findings, and note what came of it.

    Raises DoctorError if no load can be sent. Cancellation takes the change back.
    """
    settings = visit.config.probe
    assert settings is not None
    if visit.restore_failure is not None or visit.is_disturbed:
        visit.fix = FixResult(None, None, False, "the governors are not as they were read")
        return
    fix = choose_fix(diagnosis.findings, _governors_of_model(visit))
    if fix is None:
        visit.fix = FixResult(None, None, False, "no finding can be answered while it runs")
        return
    visit.fix = FixResult(fix, None, False, "interrupted: taken back")
    try:
        with _noting_restore_failure(visit):
            visit.fix = await try_fix(fix, visit.config.url, visit.config.admin_key, settings)
    except BenchError as error:
        raise DoctorError(f"--fix: {error}") from error
    finally:
        if visit.restore_failure is not None:
            visit.fix = FixResult(fix, None, False, "it could not be taken back everywhere")


def money_of(visit: Visit, finding: Finding) -> MoneyLost | None:
    """What a finding costs in money; None without a price, or if that cannot be derived."""
    price, readings = visit.config.price, visit.watch.readings
    if price is None or not readings:
        return None
    last = readings[-1]
    num_affected = len(last.engines)
    if finding.subject is not None:
        num_affected = 1
    elif visit.probe is not None and last.replicas:
        num_affected = sum(
            serves_model(entry, visit.probe.model) and entry.get("state") not in _IDLE_STATES
            for entry in last.replicas
        )
    return money_lost(finding.cost, price, num_affected, len(last.engines))


def _governors_of_model(visit: Visit) -> dict[str, Mapping[str, Any]]:
    """The states of the replicas that serve the model of the probe; none without an admin port."""
    if not visit.watch.readings or visit.kind != "paceline":
        return {}
    last = visit.watch.readings[-1]
    model = None if visit.probe is None else visit.probe.model
    entries = {str(entry.get("name")): entry for entry in last.replicas}
    return {
        name: state
        for name, state in last.governors.items()
        if serves_model(entries.get(name, {}), model)
    }
