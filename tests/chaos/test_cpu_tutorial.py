"""The commands of docs/tutorials/cpu.md, steps 3 to 6, run as shown against a gateway and a mock
engine, one after the other in one folder, as a reader runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from documented_commands.pages import PROJECT, blocks_of, commands_of_block

from chaos.gateway_process import GatewayProcess, start_gateway
from paceline.testing.mock_vllm import spawn_mock_vllm

PAGE = (PROJECT / "docs" / "tutorials" / "cpu.md").read_text(encoding="utf-8")
FIRST, END = "## 3.", "## 7."
DIAGNOSED = (0, 1, 3)
"""Exit codes of `paceline doctor` that are verdicts: a busy machine may have findings."""
BUSY = re.compile(r"not valid: the load generator|the time was too short")
"""Why `paceline bench` may end with exit code 1 on a machine that computes other things."""


def _commands() -> list[tuple[str, ...]]:
    steps = PAGE[PAGE.index(FIRST) : PAGE.index(END)]
    return [command.words for block in blocks_of(steps) for _, command in commands_of_block(block)]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with spawn_mock_vllm("--model", "paceline-demo", "--tpot-ms", "2") as engine:
        config = {"engine": {"replicas": 0}, "replicas": [{"url": engine.url}]}
        (tmp_path / "server").mkdir()
        with start_gateway(tmp_path / "server", config) as started:
            started.wait_ready(1, within_s=60)
            yield started


def test_the_commands_of_the_tutorial_run(gateway: GatewayProcess, tmp_path: Path) -> None:
    paceline = [sys.executable, "-c", "from paceline.cli import main; main()"]
    programs = {"paceline": paceline, "curl": ["curl", "--fail"]}
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "COLUMNS": "120",
    }
    ran = []
    for words in _commands():
        here = _on_its_ports(words, gateway)
        done = subprocess.run(
            [*programs[words[0]], *here[1:]],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        output = f"{' '.join(words)}\n{done.stdout}{done.stderr}"
        assert _has_worked(words, done), output
        ran.append(words[:3])
    assert len(ran) >= 8
    report = json.loads((tmp_path / "run.json").read_text())
    assert report["summary"]["num_requests"] == 64
    assert re.search("<svg|<html", (tmp_path / "again.html").read_text())


def _has_worked(words: tuple[str, ...], done: subprocess.CompletedProcess[str]) -> bool:
    if words[1] == "doctor":
        return done.returncode in DIAGNOSED
    is_busy = words[1] == "bench" and done.returncode == 1 and BUSY.search(done.stderr)
    return done.returncode == 0 or bool(is_busy)


def _on_its_ports(words: tuple[str, ...], gateway: GatewayProcess) -> list[str]:
    """The command with the ports of this gateway, also where the page relies on a default."""
    ports = {"http://127.0.0.1:8000": gateway.url, "http://127.0.0.1:8001": gateway.admin_url}
    here = list(words)
    for shown, url in ports.items():
        here = [word.replace(shown, url) for word in here]
    if words[1:3] in (("bench", "run"), ("bench", "quick")):
        here.insert(3, gateway.url)
    elif words[1] == "top":
        here.insert(2, gateway.admin_url)
    return here
