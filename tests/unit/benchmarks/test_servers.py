"""benchmarks/servers.py ends every server that it started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[3]
SIMULATED = Path(__file__).parents[1] / "bench" / "simulated.py"
_BENCHMARK = """
import sys, time
from pathlib import Path
from benchmarks.servers import running_server

plan = {"command": [sys.executable, sys.argv[1], "{port}", "0"]}
with running_server("simulated", plan, Path(sys.argv[2])):
    print("ready", flush=True)
    time.sleep(600)
"""


def test_sigterm_ends_the_servers_of_a_benchmark(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _BENCHMARK, str(SIMULATED), str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    ) as benchmark:
        assert benchmark.stdout is not None
        assert [benchmark.stdout.readline().split()[0] for _ in range(2)] == ["starting", "ready"]
        (server,) = psutil.Process(benchmark.pid).children()
        benchmark.send_signal(signal.SIGTERM)
        assert benchmark.wait(timeout=60) != 0
    assert not server.is_running()
