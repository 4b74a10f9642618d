"""The old server, a process of its own, gets SIGKILL while it completes its requests."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from paceline.runtime.serve.handover.taking_over import TakeOver
from unit.engine.process.test_supervisor import is_alive, pids
from unit.gateway.conftest import until
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.serve.handover.servers import plan_for, serving

OLD_SERVER = """
import asyncio
from dataclasses import replace
from pathlib import Path
from unit.serve.handover.servers import plan_for
from paceline.runtime.serve.run import serve
plan = plan_for(Path({folder!r}), {url!r}, num_engines=2)
plan = replace(plan, gateway=replace(plan.gateway, lame_duck_s=1000))
print_ports = lambda gateway: print(gateway.port, gateway.admin_port, flush=True)
asyncio.run(serve(plan, on_progress=lambda *_: None, on_ready=print_ports))
"""


async def test_only_the_engines_that_were_not_handed_over_end_with_it(
    folder: Path, remote: FakeRemote
) -> None:
    """Of two engines, the new server has one. It keeps its sockets, and is served."""
    script = OLD_SERVER.format(folder=str(folder / "a"), url=remote.url)
    old = start(script)
    assert old.stdout is not None
    try:
        line = await asyncio.wait_for(asyncio.to_thread(old.stdout.readline), 60)
        port, admin_port = map(int, line.split())
        taken = await asyncio.to_thread(TakeOver.begin, "127.0.0.1", port)
        assert taken is not None
        kept_pid = engine_pid(folder, "engine-0")
        other_pid = engine_pid(folder, "engine-1")
        async with serving(plan_for(folder / "b", remote.url, (port, admin_port)), taken) as new:
            assert is_alive(other_pid)
            old.kill()
            old.wait()
            await until(lambda: not is_alive(other_pid))
            await until(lambda: not (folder / "a" / "engine-1").exists())
            assert (folder / "a" / "engine-0" / "e.sock").exists()
            assert is_alive(kept_pid)
            assert new.states()["engine-0"] == "ready"
            assert len(pids(folder)) == 2
        taken.close()
        assert not is_alive(kept_pid)
        assert not (folder / "a").exists()
    finally:
        old.kill()
        old.wait()
        old.stdout.close()


def start(script: str) -> subprocess.Popen[str]:
    """The engines inherit its standard output, so its end is not the end of that pipe."""
    path = os.pathsep.join(sys.path)
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def engine_pid(folder: Path, name: str) -> int:
    """The engine's process, found by its socket's path."""
    (found,) = (
        pid
        for pid, _ in pids(folder)
        if str(folder / "a" / name) in Path(f"/proc/{pid}/cmdline").read_text()
    )
    return found
