"""`paceline doctor`, `bench quick` and `bench run` on llama.cpp's server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from other_servers.llamacpp import MODEL
from other_servers.service import Service, start_llama_servers
from paceline.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(gguf_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with start_llama_servers(
        gguf_model, tmp_path_factory.mktemp("service"), num_servers=1
    ) as running:
        yield running


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_the_doctor_says_that_it_cannot_read_the_server(service: Service) -> None:
    result = _run("doctor", service.servers[0].url, "--seconds", "2")
    assert result.exit_code == 4
    assert "shows no metric of vLLM or Paceline" in result.output
    assert "give the admin port of a gateway" in result.output


def test_the_doctor_reads_it_through_the_gateway(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "diagnosis.json"
    arguments = ("--seconds", "3", "--probe", "--data-url", service.gateway.url)
    result = _run("doctor", service.gateway.admin_url, *arguments, "--json", str(file))
    assert result.exit_code in (0, 1), result.output
    document = json.loads(file.read_text())
    assert {"server-lost", "unavailable", "queue", "failing-requests"} <= set(document["passed"])
    reasons = {one["check"]: one["reason"] for one in document["not_judged"]}
    assert "runs without speculation, or hides them" in reasons["draft-length"]
    assert "does not show this figure" in reasons["kv-cache-full"]


def test_bench_run_measures_it(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    arguments = ("--workload", "predictable", "--num-requests", "4", "--concurrency", "2")
    limits = ("--max-tokens", "16")
    url = service.gateway.url
    result = _run("bench", "run", url, *arguments, *limits, "--json", str(file))
    assert result.exit_code in (0, 1), result.output  # 1 where the machine is busy
    document = json.loads(file.read_text())
    assert document["config"]["model"] == MODEL
    figures = ("num_requests", "num_errors", "output_tokens")
    assert [document["summary"][name] for name in figures] == [4, 0, 64]


def test_bench_quick_measures_it(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "quick.json"
    arguments = ("--seconds", "15", "--max-concurrency", "2", "--max-tokens", "8", "--ttft", "5")
    result = _run("bench", "quick", service.gateway.url, *arguments, "--json", str(file))
    assert result.exit_code in (0, 1), result.output  # 1 where the machine is busy
    assert "A chat alone gets its first token after" in result.output
