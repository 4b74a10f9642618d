"""`paceline serve` as a user starts it, with keys or without."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from chaos.engines import is_alive, processes_below
from click.testing import CliRunner
from serve_options import free_ports_but

from paceline.cli import main

# A start takes 25 s on two idle cores, and took four times that on busy ones.
READY_WITHIN_S = 400.0
GONE_WITHIN_S = 60.0
MODEL = "paceline-demo"
_ADDRESSES = re.compile(rf"serving {MODEL} on (\S+) \(admin (\S+)\)")

Headers = dict[str, str]


@dataclass(frozen=True, slots=True)
class Server:
    """A server process, which may not serve yet."""

    process: subprocess.Popen[str]
    errors: Path
    """Its standard error."""
    log: Path
    """The engine's log."""
    adopted: Mapping[int, str] = field(default_factory=dict)
    """The processes of an engine that another server started."""

    def first_line(self) -> str:
        """The line it prints once it serves; blocks until then."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def descendants(self) -> dict[int, str]:
        """Process id to command of every process below it, and of an adopted engine."""
        return {**self.adopted, **processes_below(self.process.pid)}

    def runs(self, command: str) -> bool:
        """Whether a process with this in its command runs, apart from the guard that starts it."""
        return any(
            command in name and "paceline.runtime.engine.process.guard" not in name
            for name in self.descendants().values()
        )

    def engine_processes(self) -> dict[int, str]:
        """Process id to command of the guard and of the processes below it."""
        below = self.descendants()
        (guard,) = (
            pid for pid, name in below.items() if "paceline.runtime.engine.process.guard" in name
        )
        return {guard: below[guard], **processes_below(guard)}


def start(folder: Path, *arguments: str) -> Server:
    """Start the command in this folder, where it finds a `paceline.yaml`."""
    errors = folder / "stderr"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from paceline.cli import main; main()"),
                *("serve", *free_ports_but(arguments), *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={
                **os.environ,
                "PACELINE_ENGINE__LOG_FOLDER": str(folder),
                "HF_HUB_OFFLINE": "1",
                "PACELINE_SERVER__LAME_DUCK_S": "0",
            },
            cwd=folder,
        )
    return Server(process, errors, folder / "engine-0.log")


def assert_gone(pids: dict[int, str]) -> None:
    """Wait until none of the processes runs."""
    deadline_s = time.monotonic() + GONE_WITHIN_S
    while left := {pid: name for pid, name in pids.items() if is_alive(pid)}:
        assert time.monotonic() < deadline_s, f"still there: {left}"
        # sleep: the pause between two looks decides nothing
        time.sleep(0.05)


@dataclass(slots=True)
class Serving:
    """A server that serves, its two ports, and the keys it knows. Another one may take over."""

    server: Server
    http: httpx.Client
    admin: httpx.Client
    acme: Headers
    """The key of a tenant."""
    beta: Headers
    """The key of another tenant."""
    ops: Headers
    """The key of the admin port."""

    @property
    def logs(self) -> tuple[Path, Path]:
        return (self.server.errors, self.server.log)

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        """Send a request of tenant acme."""
        return self.http.post(path, json=body, headers=self.acme)

    def process(self, command: str) -> int:
        """The one process whose command matches."""
        (pid,) = (
            pid for pid, name in self.server.descendants().items() if re.search(command, name)
        )
        return pid

    def wait_status(self, expected: int, within_s: float) -> httpx.Response:
        """Wait until /ready answers with this status."""
        deadline_s = time.monotonic() + within_s
        while (answer := self.http.get("/ready")).status_code != expected:
            assert time.monotonic() < deadline_s, f"/ready still says {answer.status_code}"
            # sleep: the pause between two looks decides nothing
            time.sleep(0.05)
        return answer


@contextmanager
def serve_with_keys(folder: Path) -> Iterator[Serving]:
    """A server for two tenants; killed at the end if it still runs."""
    files = {"file": str(folder / "keys"), "admin_key_file": str(folder / "admin-keys")}
    config = {
        "engine": {
            "kv_cache_bytes": 512 * 1024**2,
            "vllm_args": ["--enable-prompt-tokens-details"],
        },
        "keys": files,
    }
    (folder / "paceline.yaml").write_text(yaml.safe_dump(config))
    acme, beta = (_create_key("--file", files["file"], "--tenant", one) for one in ("acme", "beta"))
    ops = _create_key("--file", files["admin_key_file"], "--tenant", "ops")
    server = start(folder)
    try:
        line = server.first_line()
        found = _ADDRESSES.search(line)
        assert found is not None, f"{line}{server.errors.read_text()[-3000:]}"
        with (
            httpx.Client(base_url=found[1], timeout=60) as http,
            httpx.Client(base_url=found[2], timeout=60) as admin,
        ):
            serving = Serving(server, http, admin, acme, beta, ops)
            yield serving
            server = serving.server
    finally:
        server.process.kill()
        server.process.wait()


def _create_key(*arguments: str) -> Headers:
    result = CliRunner().invoke(main, ["keys", "create", *arguments])
    assert result.exit_code == 0, result.output
    return {"authorization": f"Bearer {result.stdout.strip()}"}
