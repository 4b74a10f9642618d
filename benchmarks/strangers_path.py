"""A stranger with the README alone: from a clone to a token, a dashboard, a report and a diagnosis.

    python benchmarks/strangers_path.py --results benchmarks/results

The commands are those of the README's section "Start" (`benchmarks/readme_path.py`), run as they
are shown, in a fresh clone in a temporary folder. They have an empty home and an empty environment,
apart from the path and from how this machine reaches a package index: no cache of pip, no `.venv`.
Ports 8000 and 8001 must be free, since the README names them. The result is written after each
stage and has its time:

- clone, install (the first command has created `.venv`), server ready,
- first streamed token, end of the answer,
- dashboard: its page is answered,
- report: the file is written,
- doctor: it has ended, with exit code 0,
- second start: the server has been stopped and started again, and has streamed its first token;
- start without a network: the same once more in a network namespace that has loopback only.

The exit code is 1 if all of it until the diagnosis took more than ten minutes, if a stage failed,
if a command left a file in the clone that git does not ignore, or if the README shows another path.
130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.interruption import EXIT_INTERRUPTED, end_by_sigterm_too
from benchmarks.readme_path import ReadmeChanged, read_path
from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment

ROOT = Path(__file__).resolve().parents[1]
MAX_MINUTES = 10.0
_STAGE_TIMEOUT_S = 900.0
_STOP_TIMEOUT_S = 60.0
_POLL_S = 0.2
_KEPT = re.compile(
    r"PIP_(?!CACHE_DIR$).*|TORCH_INDEX|(?i:(?:https?|no|all)_proxy)"
    r"|SSL_CERT_(?:FILE|DIR)|(?:REQUESTS|CURL)_CA_BUNDLE|GIT_SSL_CAINFO"
)
"""How the machine reaches a package index; a cache of packages is not among it."""
_PIP_SETTINGS = (".config/pip/pip.conf", ".pip/pip.conf")
_PROGRAMS = ("git", "make", "gcc", "curl")
_PACKAGES = ("paceline", "vllm", "torch", "transformers", "aiohttp")
_READ_VERSIONS = """
import importlib.metadata, json, platform, sys
found = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
print(json.dumps({"python": platform.python_version(), **{n: found.get(n) for n in sys.argv[1:]}}))
"""


_LATER_STARTS = {
    "second start": "",
    "start without a network": "exec unshare -rn bash -c 'ip link set lo up; exec \"$@\"' - ",
}
"""What stands before the command, by stage. Programs of util-linux and iproute2."""


class StageFailed(Exception):
    """A stage did not reach its end. The message says which and why."""


def main() -> int:
    """Walk the path; the exit code."""
    options = _parser().parse_args()
    end_by_sigterm_too()
    cores = sorted(os.sched_getaffinity(0))[: options.cores]
    os.sched_setaffinity(0, cores)
    environment = describe_environment(sys.argv)
    result = ResultFile(
        options.results / f"strangers-path-{environment.date_utc[:10]}.json",
        allow_dirty=options.allow_dirty,
    )
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "stranger's path",
        "environment": asdict(environment),
        "settings": {"num_cores": len(cores), "max_minutes": MAX_MINUTES},
        "is_complete": False,
        "problem": None,
        "stages": [],
    }
    try:
        with tempfile.TemporaryDirectory(prefix="strangers-path-") as folder:
            _walk(Path(folder), document, result)
        document["is_complete"] = True
    except (StageFailed, ReadmeChanged) as problem:
        document["problem"] = str(problem)
        print(f"Error: {problem}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    document["verdict"] = judge(document)
    result.write(document)
    print(json.dumps(document["verdict"], indent=1), f"written: {result.path}", sep="\n")
    return 0 if all(document["verdict"].values()) else 1


def judge(document: Mapping[str, Any]) -> dict[str, bool]:
    """Whether each part of the requirement holds.

    >>> stages = [{"name": "doctor", "since_start_s": 599.0}]
    >>> judge({"is_complete": True, "stages": stages, "untracked": ["report.html"]})
    {'all_stages_passed': True, 'in_time': True, 'clone_is_clean': False}
    """
    ends_s = {stage["name"]: stage["since_start_s"] for stage in document["stages"]}
    return {
        "all_stages_passed": bool(document["is_complete"]),
        "in_time": ends_s.get("doctor", math.inf) <= 60 * MAX_MINUTES,
        "clone_is_clean": document.get("untracked") == [],
    }


def _walk(folder: Path, document: dict[str, Any], result: ResultFile) -> None:
    """All stages. Raises `StageFailed` and `ReadmeChanged`."""
    (folder / "home").mkdir()
    for name in _PIP_SETTINGS:
        if (settings := Path.home() / name).is_file():
            (folder / "home" / name).parent.mkdir(parents=True)
            shutil.copy(settings, folder / "home" / name)
    shell = Shell(folder / "clone", empty_environment(os.environ, folder / "home"))
    stages = _Stages(document, lambda: result.write(document))
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(shell.folder)], check=True)
    stages.passed("clone", f"git clone {ROOT.name}")
    path = read_path((shell.folder / "README.md").read_text(encoding="utf-8"))
    document["readme"] = asdict(path)
    for url in (path.data_url, path.dashboard_url):
        refuse_taken_port(url)
    with shell.running_server(path.serve, folder / "serve.log") as server:
        server.wait_for("the environment", lambda: any(shell.folder.glob(".venv/.installed-*")))
        stages.passed("install", path.serve)
        server.wait_for("the server", lambda: path.ready_text in server.printed())
        stages.passed("server ready", path.serve)
        shell.stream(path.ask, lambda: stages.passed("first streamed token", path.ask))
        stages.passed("answer complete", path.ask)
        stages.passed("dashboard", path.dashboard_url, answer=fetch_page(path.dashboard_url))
        shell.run("report", path.measure)
        size = check_report(shell.folder / path.report)
        stages.passed("report", path.measure, report_bytes=size)
        stages.passed("doctor", path.diagnose, printed=shell.run("doctor", path.diagnose)[-2000:])
        document["versions"] = _versions(shell)
    for name, words in _LATER_STARTS.items():
        stages.begin()
        with shell.running_server(words + path.serve, folder / f"{name}.log") as server:
            server.wait_for("the server", lambda: path.ready_text in server.printed())
            enter = f"nsenter --preserve-credentials --user --net --target {server.process.pid} "
            ask = enter + path.ask if words else path.ask
            shell.stream(ask, functools.partial(stages.passed, name, words))
    status = shell.run("git status", "git status --porcelain")
    document["untracked"] = [line[3:] for line in status.splitlines()]


@dataclass(slots=True)
class _Stages:
    """Notes when each stage has ended, and writes the result."""

    document: dict[str, Any]
    write: Callable[[], None]
    begun_s: float = field(default_factory=time.monotonic)
    before_s: float = 0.0

    def begin(self) -> None:
        """Count the seconds of the next stage from now."""
        self.before_s = time.monotonic() - self.begun_s

    def passed(self, name: str, command: str, **more: Any) -> None:
        stages = self.document["stages"]
        since_start_s = time.monotonic() - self.begun_s
        seconds = round(since_start_s - self.before_s, 2)
        self.before_s = since_start_s
        entry = {"name": name, "seconds": seconds, "since_start_s": round(since_start_s, 2)}
        stages.append({**entry, "command": command, **more})
        print(f"{since_start_s:7.1f} s  {name} ({seconds:.1f} s)", flush=True)
        self.write()


def empty_environment(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """What a stranger's commands get: a path without this virtual environment, an empty home.

    >>> given = {"PATH": "/usr/bin", "PYTHONPATH": "src", "HTTPS_PROXY": "p", "PIP_CACHE_DIR": "/c"}
    >>> empty_environment(given, Path("/h"))
    {'PATH': '/usr/bin', 'HOME': '/h', 'LANG': 'C.UTF-8', 'HTTPS_PROXY': 'p'}
    """
    own = str(Path(sys.prefix) / "bin")
    folders = [one for one in environment.get("PATH", os.defpath).split(os.pathsep) if one != own]
    kept = {name: value for name, value in environment.items() if _KEPT.fullmatch(name)}
    return {"PATH": os.pathsep.join(folders), "HOME": str(home), "LANG": "C.UTF-8", **kept}


def refuse_taken_port(url: str) -> None:
    """Raise `StageFailed` if something listens there: it would be measured instead."""
    parts = urlsplit(url)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((parts.hostname or "", parts.port or 80))
        except OSError as error:
            raise StageFailed(f"the README's port {parts.port} is taken ({error})") from None


def fetch_page(url: str) -> dict[str, Any]:
    """The answer to a browser that opens the URL. Raises `StageFailed` unless it is a page."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            kind, text = answer.headers.get_content_type(), answer.read()
            found = {"url": answer.url, "status": answer.status, "num_bytes": len(text)}
    except OSError as error:
        raise StageFailed(f"dashboard: {url} was not answered ({error})") from None
    if kind != "text/html" or b"<html" not in text[:2000].lower():
        raise StageFailed(f"dashboard: {url} answered with {kind}, which is no page")
    return found


def check_report(file: Path) -> int:
    """The size of the report. Raises `StageFailed` if there is none."""
    if not file.is_file() or b"<html" not in file.read_bytes()[:2000].lower():
        raise StageFailed(f"report: the command wrote no page to {file.name}")
    return file.stat().st_size


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs the README's commands in a clone. Each is bounded and in a session of its own."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, name: str, command: str) -> str:
        """What the command printed. Raises `StageFailed` unless it ends with exit code 0."""
        with self._process(command, subprocess.PIPE, subprocess.PIPE) as process:
            printed, errors = process.communicate()
        if process.returncode != 0:
            raise StageFailed(f"{name}: exit code {process.returncode}: {errors[-1000:]}")
        return str(printed)

    def stream(self, command: str, on_first_token: Callable[[], None]) -> None:
        """Read an answer to its end. Raises `StageFailed` unless it has text and an end."""
        has_text = has_end = False
        with self._process(command, subprocess.PIPE, subprocess.DEVNULL) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not has_text and has_content(line):
                    has_text = True
                    on_first_token()
                has_end = has_end or line.strip() == "data: [DONE]"
        if process.returncode != 0 or not has_text or not has_end:
            raise StageFailed(
                f"first streamed token: exit code {process.returncode}, "
                f"{'text' if has_text else 'no text'}, {'an' if has_end else 'no'} end"
            )

    @contextmanager
    def running_server(self, command: str, log: Path) -> Iterator[RunningServer]:
        """The server while the block lasts; it and every process that it started end with it."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", command], cwd=self.folder, env=dict(self.environment),
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            yield RunningServer(process, log)
        finally:
            _end(process)

    @contextmanager
    def _process(self, command: str, stdout: int, stderr: int) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=self.folder, env=dict(self.environment),
            stdout=stdout, stderr=stderr, text=True, start_new_session=True,
        )  # fmt: skip
        watch = threading.Timer(_STAGE_TIMEOUT_S, os.killpg, (process.pid, signal.SIGKILL))
        watch.start()
        try:
            with process:
                yield process
        finally:
            watch.cancel()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """The command that serves, and what it printed."""

    process: subprocess.Popen[bytes]
    log: Path

    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        """Return once it holds. Raises `StageFailed` if the command ends, or after 15 minutes."""
        deadline_s = time.monotonic() + _STAGE_TIMEOUT_S
        while not holds():
            code = self.process.poll()
            if code is not None or time.monotonic() > deadline_s:
                ending = "took too long" if code is None else f"ended with exit code {code}"
                raise StageFailed(f"{what}: the command {ending}: {self.printed()[-2000:]}")
            time.sleep(_POLL_S)


def has_content(line: str) -> bool:
    """Whether a line of a stream carries text of the answer.

    >>> has_content('data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}')
    False
    >>> has_content('data: {"choices": [{"delta": {"content": "def"}}]}')
    True
    """
    if not line.startswith("data: {"):
        return False
    choices = json.loads(line.removeprefix("data: ")).get("choices") or []
    return any((choice.get("delta") or {}).get("content") for choice in choices)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C, as a stranger ends the server; then kill what is left of it."""
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_S)
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, _STOP_TIMEOUT_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _versions(shell: Shell) -> dict[str, Any]:
    words = [str(shell.folder / ".venv/bin/python"), "-c", _READ_VERSIONS, *_PACKAGES]
    found = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    programs = {name: shell.run(name, f"{name} --version").partition("\n")[0] for name in _PROGRAMS}
    return {**json.loads(found), **programs}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cores", type=int, default=2, help="that all commands may use together")
    parser.add_argument("--results", type=Path, required=True, metavar="DIR")
    add_allow_dirty(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
