"""Start stock vLLM engines in processes of their own, and exchange requests with them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.governor.interleaved.engines import layout_environment

_CHILD = Path(__file__).with_name("engine_child.py")
_LOG_CHARACTERS = 2000
_END_S = 30
"""How long an engine may take to end by itself."""
_ANSWER_S = 1800
"""How long an engine may take for one answer; the likelihoods of a large model take longest. A
start that compiles the model takes up to some minutes."""


class EngineError(Exception):
    """vLLM refused; the message is its own."""

    def __init__(self, message: str, log: str, engine: str = "") -> None:
        super().__init__(message)
        self.log = log
        """The last lines of the engine's log."""
        self.engine = engine
        """Its name."""


class Engine:
    """One engine without any plugin, in the layout of `paceline serve`."""

    def __init__(self, arguments: Mapping[str, Any], log: Path) -> None:
        """Start it with these arguments of `vllm.LLM`. Raises EngineError."""
        read_end, write_end = os.pipe()
        compiles = not arguments.get("enforce_eager", False)
        environment = {
            **os.environ,
            **layout_environment("served", compiles=compiles),
            "VLLM_PLUGINS": "",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        }
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_CHILD), str(write_end)],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env=environment,
                pass_fds=(write_end,),
                start_new_session=True,  # Ctrl-C is for the benchmark, which ends its engines
            )
        os.close(write_end)
        self._answers = os.fdopen(read_end)
        self._log = log
        try:
            self.started = self.ask(op="start", arguments=dict(arguments))
        except BaseException:
            self.close()
            raise

    def ask(self, **request: Any) -> dict[str, Any]:
        """One exchange. Raises EngineError with the engine's own message.

        An engine that does not answer within `_ANSWER_S` is killed.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the process has ended, and so have its answers
        if not select.select([self._answers], [], [], _ANSWER_S)[0]:
            self._process.kill()
        line = self._answers.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._how_it_ended()}
        if "error" in answer:
            log = self._log.read_text(errors="replace")[-_LOG_CHARACTERS:]
            raise EngineError(answer["error"], log, self._log.stem)
        return answer

    def memory_bytes(self) -> int:
        """Resident memory of the process now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def close(self) -> None:
        """End the process; kill it if it does not end by itself."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def _how_it_ended(self) -> str:
        return f"the engine ended with exit code {self._process.wait(_END_S)}"


@contextlib.contextmanager
def running_engines(
    arguments: Mapping[str, Mapping[str, Any]], logs: Path
) -> Iterator[dict[str, Engine]]:
    """One engine per name; all end with the context. Raises EngineError if one does not start."""
    with contextlib.ExitStack() as stack:
        started: dict[str, Engine] = {}
        for name, given in arguments.items():
            started[name] = Engine(given, logs / f"{name}.log")
            stack.callback(started[name].close)
        yield started
