"""A gateway of two worker processes: the cases in which several could differ from one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.fleet import IDLE, Fleet, running_fleet, until
from chaos.known import ask_all, faults_of, known, num_struck
from chaos.leaving import Moment, leave
from chaos.told import Ending

NUM_STREAMS = 16
CONFIG = {"server": {"workers": 2}}


def worker_pids(fleet: Fleet) -> list[int]:
    """Of the processes that serve the data port."""
    pids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if int(parent) == fleet.served.pid and b"paceline.gateway.workers" in words:
                pids.append(int(folder.name))
    return sorted(pids)


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    with running_fleet(2, "--tpot-ms", "4", config=CONFIG) as running:
        yield running


async def test_sigkill_of_a_replica_mid_stream(fleet: Fleet) -> None:
    fleet.set_fault(0, kind="die", after_tokens=7)
    asked = [known(number) for number in range(NUM_STREAMS)]
    told = await ask_all(fleet, asked, name="workers-sigkill")
    assert faults_of(fleet, asked, told) == []
    assert fleet.standins[0].returncode == -9
    assert num_struck(fleet, told) > 0
