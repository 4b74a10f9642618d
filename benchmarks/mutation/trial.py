"""Run the tests of a module in a forked process, with another source in the module's place.

The file on disk is not touched: an import hook compiles the given source. The process is forked
from one that has imported pytest and the third-party packages of the tests, which saves most of the
time of a run. For the same reason pytest loads no plugins but the one for async tests, bytecode is
cached in a folder of its own, and the tests that were quickest on the unchanged module run first:
the first failure ends a run.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

_OWN = ("paceline", "unit", "losslessness", "conftest", "tests", "benchmarks")
"""Packages that may import the mutated module, and so must not be imported before the fork."""
_INI = Path(__file__).with_name("pytest.ini")
_FLAGS = ("-x", "-q", "-c", str(_INI), "--rootdir", str(_INI.parents[2]))
_WITHOUT = ("cacheprovider", "faulthandler", "junitxml", "threadexception", "unraisableexception")
_PLUGINS = (*(f"-pno:{name}" for name in _WITHOUT), "-ppytest_asyncio.plugin")
_BYTECODE = str(Path(tempfile.gettempdir()) / "paceline-mutation-bytecode")
_MIN_LIMIT_S = 10
_CPU_FACTOR = 5.0
_WALL_FACTOR = 10.0
_MAX_PAUSE_S = 1.0
"""A longer pause of this process is not counted: its children were paused, too."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of one run."""

    outcome: str
    """`passed`, `failed`, `timeout`, or `error` where pytest could not run the tests."""
    cpu_s: float
    durations_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each test that ran, by its id."""


class _QuickTestsFirst:
    """A plugin of pytest: runs the tests in order of known durations, and measures them."""

    def __init__(self, known_s: Mapping[str, float]) -> None:
        self._known_s = known_s
        self.durations_s: dict[str, float] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: self._known_s.get(item.nodeid, 0.0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        before_s = self.durations_s.get(report.nodeid, 0.0)
        self.durations_s[report.nodeid] = before_s + report.duration


class _Loader(importlib.abc.SourceLoader):
    def __init__(self, path: Path, source: str) -> None:
        self._path, self._source = path, source

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str | bytes) -> bytes:
        if Path(os.fsdecode(path)) == self._path:
            return self._source.encode()
        raise OSError("no cached bytecode for a changed source")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, path: Path, source: str) -> None:
        self._name, self._path = name, path
        self._loader = _Loader(path, source)

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname != self._name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self._loader, origin=str(self._path))


def run_trial(
    module: str, path: Path, source: str, tests: Sequence[str], baseline: Trial | None = None
) -> Trial:
    """Run `tests` with `source` as `module`.

    `baseline`, a trial of the unchanged module, bounds the CPU time and orders the tests. Without
    it, also import in this process what the tests imported from other packages.
    """
    limit_s = 600.0 if baseline is None else max(_CPU_FACTOR * baseline.cpu_s, _MIN_LIMIT_S)
    order = _QuickTestsFirst({} if baseline is None else baseline.durations_s)
    with tempfile.NamedTemporaryFile("r") as report:
        pid = os.fork()
        if pid == 0:
            _run_child(module, path, source, tests, limit_s, order, Path(report.name))
        outcome, cpu_s = _await(pid, _WALL_FACTOR * limit_s)
        found = json.loads(report.read() or "{}")
    if baseline is None:
        _preload(found.get("modules", ()))
    return Trial(outcome, cpu_s, found.get("durations_s", {}))


def _run_child(
    module: str,
    path: Path,
    source: str,
    tests: Sequence[str],
    limit_s: float,
    order: _QuickTestsFirst,
    report: Path,
) -> None:
    code: int = 3
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1, int(limit_s) + 2))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        gc.freeze()
        gc.disable()
        sys.dont_write_bytecode, sys.pycache_prefix = False, _BYTECODE
        sys.meta_path.insert(0, _Finder(module, path, source))
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        import pytest

        code = int(pytest.main([*_FLAGS, *_PLUGINS, *tests], [order]))
        found = {"modules": list(sys.modules), "durations_s": order.durations_s}
        report.write_text(json.dumps(found))
    finally:
        os._exit(code)


def _await(pid: int, limit_s: float) -> tuple[str, float]:
    """Wait for the process; kill its group after `limit_s` of wall time."""
    waited_s, before_s = 0.0, time.monotonic()
    while True:
        found, status, usage = os.wait4(pid, os.WNOHANG)
        if found:
            break
        if waited_s > limit_s:
            os.killpg(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            break
        time.sleep(0.005)
        now_s = time.monotonic()
        waited_s += min(now_s - before_s, _MAX_PAUSE_S)
        before_s = now_s
    cpu_s = usage.ru_utime + usage.ru_stime
    if os.WIFSIGNALED(status):
        return "timeout", cpu_s
    return {0: "passed", 1: "failed", 2: "failed"}.get(os.WEXITSTATUS(status), "error"), cpu_s


def _preload(names: Sequence[str]) -> None:
    for name in names:
        if name.split(".")[0] in _OWN or name.startswith(("_pytest", "pytest", "__", "test_")):
            continue
        with contextlib.suppress(Exception):  # then each run imports it itself
            importlib.import_module(name)
