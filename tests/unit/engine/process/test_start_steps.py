"""The steps of an engine's start are read from its log as it grows."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from paceline.runtime.engine.process.start_steps import MARKS, StartSteps

CORE = "(EngineCore pid=7) INFO 11-29 19:07:44 "
LOADING = CORE + "[cpu_model_runner.py:68] Starting to load model /models/target...\n"
COMPILING = CORE + "[cpu_model_runner.py:87] Warming up model for the compilation...\n"
BACKBONE = (
    CORE + "[backends.py:1105] [backbone] Using cache directory: /c for vLLM's torch.compile\n"
)
CAPTURING = "Capturing CUDA graphs (decode, FULL):   0%|          | 0/35\rCapturing CUDA graphs"
CHECKING = CORE + "[start.py:190] Costs: checking those stored on 2026-11-29\n"
MEASURED = CORE + "[start.py:103] Costs: measured 30 kinds of steps in 10.6 s\n"


def steps_in(log: Path, *parts: str) -> list[list[str]]:
    """The new steps after each part is appended."""
    steps, found = StartSteps(log), []
    for part in parts:
        with log.open("a") as file:
            file.write(part)
        found.append(steps.read_new())
    return found


def test_each_step_is_reported_once_when_it_begins(tmp_path: Path) -> None:
    assert steps_in(
        tmp_path / "e.log", "INFO: hello\n", LOADING, "", COMPILING + BACKBONE, CAPTURING, MEASURED
    ) == [
        [],
        ["loading the model"],
        [],
        ["compiling the model"],
        ["capturing CUDA graphs"],
        ["step times: measured 30 kinds of steps in 10.6 s"],
    ]


def test_a_slower_worker_does_not_take_the_start_back(tmp_path: Path) -> None:
    """Each worker logs its own steps, and the drafter is loaded after the target."""
    log = tmp_path / "e.log"
    assert steps_in(log, LOADING, BACKBONE, LOADING, BACKBONE + COMPILING) == [
        ["loading the model"],
        ["compiling the model"],
        [],
        [],
    ]


def test_all_lines_about_costs_are_reported(tmp_path: Path) -> None:
    assert steps_in(tmp_path / "e.log", CHECKING + MEASURED) == [
        [
            "step times: checking those stored on 2026-11-29",
            "step times: measured 30 kinds of steps in 10.6 s",
        ]
    ]


def test_a_line_counts_when_it_is_complete(tmp_path: Path) -> None:
    assert steps_in(tmp_path / "e.log", MEASURED[:70], MEASURED[70:]) == [
        [],
        ["step times: measured 30 kinds of steps in 10.6 s"],
    ]


def test_a_log_that_is_rotated_or_absent_is_followed(tmp_path: Path) -> None:
    log = tmp_path / "e.log"
    steps = StartSteps(log)
    assert steps.read_new() == []
    log.write_text(100 * "x\n" + LOADING)
    assert steps.read_new() == ["loading the model"]
    log.rename(tmp_path / "e.log.1")
    log.write_text(COMPILING)
    assert steps.read_new() == ["compiling the model"]


@pytest.mark.parametrize(
    ("mark", "module"),
    [
        ("Starting to load model ", "v1/worker/cpu_model_runner.py"),
        ("Starting to load model ", "v1/worker/gpu_model_runner.py"),
        ("Warming up model for the compilation", "v1/worker/cpu_model_runner.py"),
        ("for vLLM's torch.compile", "compilation/backends.py"),
        ("Capturing CUDA graphs", "v1/worker/gpu_model_runner.py"),
    ],
)
def test_vllm_words_its_steps_so(mark: str, module: str) -> None:
    spec = find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    assert mark in (Path(spec.origin).parent / module).read_text()
    assert mark in dict(MARKS)
