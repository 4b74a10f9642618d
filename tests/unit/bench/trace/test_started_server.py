"""Servers that are started by a command line; the mock server plays vLLM."""

from __future__ import annotations

import json
import shlex
import sys

import aiohttp
import pytest

from paceline.foundation.load.config import BenchError
from paceline.workbench.bench.trace.started_server import render_words, started_server

MOCK = f"{shlex.quote(sys.executable)} -m paceline.testing.mock_vllm --port {{port}}"


def test_the_command_gets_a_port_and_the_configuration_of_vllm() -> None:
    words = render_words(
        "serve --port {port} --speculative-config {speculative_config}",
        81,
        (0.5, 0.25),
        {"method": "draft_model", "model": "a b"},
    )
    assert words[:3] == ["serve", "--port", "81"]
    assert json.loads(words[4]) == {
        "method": "draft_model",
        "model": "a b",
        "num_speculative_tokens": 2,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": [0.5, 0.25],
    }


@pytest.mark.parametrize(
    ("command", "rates", "message"),
    [
        ("serve", (), "it needs {port}"),
        ("serve {port}", (0.5,), "it needs {speculative_config}, and with 0"),
        ("serve {port} {speculative_config}", (), "and with 0 it must not have it"),
    ],
)
def test_a_command_without_its_places_is_refused(
    command: str, rates: tuple[float, ...], message: str
) -> None:
    with pytest.raises(BenchError, match=message):
        render_words(command, 81, rates, {})


async def test_a_server_is_started_with_its_rates_and_stopped() -> None:
    command = f"{MOCK} --tpot-ms 1 --speculative-config {{speculative_config}}"
    body = {"model": "mock_vllm", "prompt": "a", "max_tokens": 9, "ignore_eos": True}
    async with aiohttp.ClientSession() as session:
        async with started_server(command, (1.0, 1.0), {}, 20.0) as server:
            async with session.post(server / "v1" / "completions", json=body) as answer:
                assert answer.status == 200
            async with session.get(server / "metrics") as page:
                text = await page.text()
        assert 'spec_decode_num_drafts_total{engine="0",model_name="mock_vllm"} 3.0' in text
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(server / "health")


async def test_a_server_that_ends_at_once_shows_its_output() -> None:
    with pytest.raises(BenchError, match=r"exited with 2:\n(.|\n)*--tpot-ms"):
        async with started_server(f"{MOCK} --tpot-ms fast", (), {}, 20.0):
            pass


async def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(BenchError, match=r"--serve: /nowhere/serve \{port\} cannot be started"):
        async with started_server("/nowhere/serve {port}", (), {}, 20.0):
            pass
