"""Settings that differ are named, and their values are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.runtime.serve.handover.changed_settings import changed_arguments, changed_variables

STARTED = ("python", "-m", "server", "--uds", "/run/a/e.sock", "--max-num-seqs", "64", "--eager")


@pytest.mark.parametrize(
    ("current", "changed"),
    [
        (STARTED, []),
        (("python", "-m", "server", "--uds=/run/b/e.sock", "--max-num-seqs=64", "--eager"), []),
        ((*STARTED[:6], "8", "--eager"), ["--max-num-seqs"]),
        (STARTED[:-1], ["--eager"]),
        ((*STARTED, "-tp", "2"), ["-tp"]),
        ((*STARTED, "--max-num-seqs", "8"), ["--max-num-seqs"]),
        (("/venv/python", *STARTED[1:], "--model", "x"), ["the program", "--model"]),
    ],
)
def test_flags_with_other_values_are_named(current: tuple[str, ...], changed: list[str]) -> None:
    """Each engine has its sockets in a folder of its own, which is no setting."""
    moved = tuple(argument.replace("/run/a", "/run/b") for argument in current)
    assert changed_arguments(STARTED, Path("/run/a"), moved, Path("/run/b")) == changed


@pytest.mark.parametrize(
    ("started", "current", "changed"),
    [
        ({"HF_TOKEN": "a"}, {"HF_TOKEN": "a"}, []),
        ({"HF_TOKEN": "a"}, {"HF_TOKEN": "b"}, ["HF_TOKEN"]),
        ({"VLLM_PLUGINS": ""}, {"OMP_NUM_THREADS": "4"}, ["OMP_NUM_THREADS", "VLLM_PLUGINS"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, {}, ["CUDA_VISIBLE_DEVICES"]),
        ({"TERM": "a", "TMPDIR": "a", "PACELINE_SERVER__PORT": "1"}, {"TERM": "b"}, []),
        ({"PACELINE_CORE_ENV_KMP_AFFINITY": "a"}, {"KMP_AFFINITY": "a"}, []),
        ({"PACELINE_CORE_ENV_KMP_AFFINITY": "a"}, {}, ["KMP_AFFINITY"]),
    ],
)
def test_variables_of_an_engine_that_differ_are_named(
    started: dict[str, str], current: dict[str, str], changed: list[str]
) -> None:
    assert changed_variables(started, current) == changed
