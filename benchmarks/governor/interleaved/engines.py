"""Start one child process per arm, send it turns, and end it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.governor.interleaved.arms import Arm
from paceline.runtime.engine.launch.environment import ENGINE_CORE_PREFIX
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.engine.launch.layout import LayoutSettings, choose_layout

ROOT = Path(__file__).resolve().parents[3]
_CHILD = Path(__file__).with_name("engine_child.py")
_STARTED_TOGETHER = 1
"""Starts are bound by the processor; more at once would only need more memory."""
_LAST_CHARACTERS = 3000
LAYOUTS = ("served", "unbound")
MAX_NUM_SEQS = 64
MAX_MODEL_LEN = 2048


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What the engines of all arms share."""

    target: str
    drafter: str
    """`model`, `head` or `ngram`."""
    draft: str
    dtype: str
    max_draft_length: int
    kv_cache_bytes: int
    layout: str
    """One of `LAYOUTS`."""
    compiles: bool
    """Whether vLLM compiles the model."""

    def arguments(self, arm: Arm) -> dict[str, Any]:
        """The arguments of `vllm.LLM` for this arm."""
        arguments: dict[str, Any] = {
            "model": self.target,
            "dtype": self.dtype,
            "seed": 0,
            "enforce_eager": not self.compiles,
            "enable_prefix_caching": False,
            "max_num_seqs": MAX_NUM_SEQS,
            "max_model_len": MAX_MODEL_LEN,
            "max_num_batched_tokens": MAX_MODEL_LEN,
            "kv_cache_memory_bytes": self.kv_cache_bytes,
        }
        if arm.settings is None:
            return arguments
        speculative: dict[str, Any] = {"num_speculative_tokens": self.max_draft_length}
        if self.drafter == "ngram":
            speculative |= {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}
        else:
            method = "eagle3" if self.drafter == "head" else "draft_model"
            speculative |= {"method": method, "model": self.draft}
            speculative["draft_sample_method"] = "probabilistic"
        return arguments | {
            "speculative_config": speculative,
            "scheduler_cls": "paceline.engine.AdaptiveScheduler",
            "additional_config": {"paceline": arm.settings},
        }


def layout_environment(layout: str, *, compiles: bool = False) -> dict[str, str]:
    """How the engines use the cores. Idle threads sleep in every layout, after 1 ms at most.

    `served` is the layout of `paceline serve`: Intel's OpenMP where it is installed, with threads
    bound to cores. `unbound` is PyTorch's own OpenMP with one thread per core. `compiles`: whether
    `served` is for an engine that compiles its model.
    """
    chosen = choose_layout(read_hardware(), LayoutSettings(kv_cache_bytes=1, compiles=compiles))
    if layout == "unbound":
        return {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(len(chosen.cpu_ids)),
            "OMP_WAIT_POLICY": "passive",
        }
    if chosen.environment.get("VLLM_ENABLE_V1_MULTIPROCESSING") != "0":
        raise ValueError(
            "--layout is 'served', but `paceline serve` would run the model in worker processes "
            "here, where this script cannot read the scheduler; use --layout unbound"
        )
    return {
        name.removeprefix(ENGINE_CORE_PREFIX): value for name, value in chosen.environment.items()
    }


class Engine:
    """The child process of one arm. Not ready until `wait_until_ready`."""

    def __init__(self, arm: Arm, options: EngineOptions, log: Path) -> None:
        self._log = log
        environment = {
            **os.environ,
            **layout_environment(options.layout, compiles=options.compiles),
            "PYTHONPATH": os.pathsep.join(arm.python_path(ROOT / "src")),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
            bufsize=1,
            env=environment,
        )
        self._send(options.arguments(arm))

    def wait_until_ready(self) -> int:
        """Block until the engine has started; its compute threads. SystemExit if it does not."""
        return int(self._receive()["num_threads"])

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run one turn, or the next slice of it; its figures, or `paused` before its end."""
        self._send(order)
        return self._receive()

    def memory_bytes(self) -> int:
        """Resident memory of the child now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def processor_s(self) -> float:
        """Processor time that the child has used."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the child; kill it if it does not end by itself."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()

    def _send(self, value: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(value) + "\n")
        except BrokenPipeError:
            self._fail()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._fail()
        found: dict[str, Any] = json.loads(line)
        return found

    def _fail(self) -> None:
        raise SystemExit(f"an engine exited: {self._log.read_text()[-_LAST_CHARACTERS:]}")


@contextmanager
def running_engines(
    arms: Sequence[Arm], options: EngineOptions, logs: Path, *, seed: int
) -> Iterator[dict[str, Engine]]:
    """All engines by arm, ready; all end with the context.

    They start in the order that `seed` draws: of two equal engines, the one that started first was
    slower by 3 to 8 % as long as both lived.
    """
    engines: dict[str, Engine] = {}
    arms = random.Random(f"start {seed}").sample(arms, len(arms))
    with ExitStack() as stack:
        for first in range(0, len(arms), _STARTED_TOGETHER):
            batch = arms[first : first + _STARTED_TOGETHER]
            for number, arm in enumerate(batch, start=first):
                print(f"starting: {arm.name}", file=sys.stderr, flush=True)
                engine = Engine(arm, options, logs / f"{number}.log")
                engines[arm.name] = engine
                stack.callback(engine.close)
            for arm in batch:
                num_threads = engines[arm.name].wait_until_ready()
                print(f"ready: {arm.name}, {num_threads} threads", file=sys.stderr, flush=True)
        yield engines
