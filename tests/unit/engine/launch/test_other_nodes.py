"""What starts the other nodes of an engine that spans machines."""

from __future__ import annotations

from pathlib import Path

from paceline.runtime.engine.launch.command import EngineCommand, EngineSpec, render_command
from paceline.runtime.engine.launch.layout import Layout
from paceline.runtime.engine.launch.other_nodes import render_node_arguments, render_node_command

LAYOUT = Layout(
    "float32",
    ("--dtype", "float32"),
    {"VLLM_CPU_OMP_THREADS_BIND": "0|1", "PACELINE_CORE_ENV_KMP_AFFINITY": "x"},
    (0, 1),
    (),
)


def command(*vllm_args: str) -> EngineCommand:
    spec = EngineSpec(
        model="/m",
        served_name="name of mine",
        speculative_config=None,
        policy="goodput",
        vllm_args=vllm_args,
    )
    return render_command(spec, LAYOUT, Path("/run"), "engine-0", "some.module")


def test_another_node_gets_the_arguments_of_the_first_without_its_socket() -> None:
    given = command("-pp", "2", "--nnodes", "2", "--node-rank", "0", "--master-addr", "10.0.0.1")
    arguments = render_node_arguments(given, 1)
    assert arguments[:4] == ("serve", "/m", "--served-model-name", "name of mine")
    assert arguments[-3:] == ("--node-rank", "1", "--headless")
    assert arguments[-7:-3] == ("--nnodes", "2", "--master-addr", "10.0.0.1")
    assert arguments.count("--node-rank") == 1
    for part in ("--uds", "/run/engine-0.sock", "some.module"):
        assert part not in arguments


def test_the_rank_may_be_given_in_any_spelling() -> None:
    for spelling in (("-r", "0"), ("--node_rank=0",), ()):
        assert render_node_arguments(command("-n", "2", *spelling), 3)[-5:] == (
            *("-n", "2", "--node-rank", "3", "--headless"),
        )


def test_the_shell_command_sets_what_the_workers_read() -> None:
    text = render_node_command(command("-n", "2"), 1)
    assert "VLLM_CPU_OMP_THREADS_BIND='0|1' vllm serve /m" in text
    assert "'name of mine'" in text
    for name in ("PACELINE_", "TMPDIR"):
        assert name not in text
