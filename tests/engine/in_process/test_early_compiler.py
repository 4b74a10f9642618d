"""What is prepared for the compiler while a model is traced."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from torch._inductor.codecache import CppPythonBindingsCodeCache

from paceline.runtime.engine.fixes import early_compiler as module
from paceline.runtime.engine.fixes.early_compiler import early_compiler

_COMPILE = """
import torch
from pathlib import Path
from paceline.runtime.engine.fixes.early_compiler import early_compiler

def headers():
    return sorted(map(str, Path("{cache}").rglob("*.gch")))

with early_compiler():
    pass
before = headers()
assert len(before) == 1, before
torch.compile(lambda x: x.sin() + 1)(torch.ones(64))
assert headers() == before, headers()
"""


@pytest.mark.slow  # 30 s of a compiler
def test_the_kernels_of_a_model_use_the_header_that_was_built(tmp_path: Path) -> None:
    script = _COMPILE.format(cache=tmp_path)
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(sys.path),
        "TMPDIR": str(tmp_path),
        "TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=600)


def test_a_failure_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> set[int]:
        raise OSError

    monkeypatch.setattr(module, "_cores_of_all_threads", fail)
    caplog.set_level("INFO", logger="vllm.paceline.early_compiler")
    module.logger.addHandler(caplog.handler)
    with early_compiler():
        pass
    assert "could not be prepared early" in caplog.text


def test_it_computes_on_all_cores_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that traces is bound to one of them; those it starts would be, too."""
    allowed = os.sched_getaffinity(0)
    found = list[set[int]]()
    monkeypatch.setattr(
        CppPythonBindingsCodeCache,
        "load_pybinding",
        lambda *_: found.append(os.sched_getaffinity(0)),
    )

    def trace() -> None:
        os.sched_setaffinity(0, {min(allowed)})
        with early_compiler():
            pass

    tracing = threading.Thread(target=trace)
    tracing.start()
    tracing.join()
    assert found == [allowed]
