"""What the fork server of the engine core has imported is as if vLLM's own process had done it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import json, os
from multiprocessing import forkserver
from paceline.runtime.engine.process import warm_core

def report(answers):
    import torch._inductor.config as config
    threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
    answers.put(json.dumps([threads, config.compile_threads, config.cpp.dynamic_threads]))

if __name__ == "__main__":
    warm_core._start_fork_server("json")
    context = warm_core.WarmContext()
    answers = context.SimpleQueue()
    process = context.Process(target=report, args=(answers,))
    process.start()
    print(answers.get())
    process.join()
"""


def test_the_fork_server_has_one_thread_and_the_configuration_of_an_engine_core(
    tmp_path: Path,
) -> None:
    """A fork of several threads could wait for ever for a lock that one of them held. vLLM compiles
    with one thread, and for a number of threads that is not fixed."""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    ended = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True, timeout=240
    )
    assert json.loads(ended.stdout.splitlines()[-1]) == [1, 1, True]
