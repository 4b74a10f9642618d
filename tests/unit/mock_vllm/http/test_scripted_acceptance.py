"""Acceptance rates of single requests, and those of the server's configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from paceline.cli import main
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from paceline.testing.mock_vllm.model.speculation import Speculation

SETTINGS = MockVllmSettings(
    tpot_ms=1, prefill_tokens_per_s=1e6, speculation=Speculation(3, (1.0, 1.0, 0.0))
)


async def chunk_sizes(settings: MockVllmSettings, **body: Any) -> list[int]:
    """Tokens of each chunk of a streamed answer of nine tokens."""
    request = {
        "model": "mock_vllm",
        "prompt": "abc",
        "max_tokens": 9,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "return_token_ids": True,
        **body,
    }
    async with (
        MockVllm(settings) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        answer = await http.post("/v1/completions", json=request)
        assert answer.status_code == 200, answer.text
    events = [httpx.Response(200, content=e[6:]) for e in answer.text.split("\n\n")[:-2]]
    choices = [choice for event in events for choice in event.json()["choices"]]
    return [len(choice["token_ids"]) for choice in choices if choice.get("token_ids")]


async def test_drafts_are_accepted_at_the_rates_of_the_server() -> None:
    assert await chunk_sizes(SETTINGS) == [1, 3, 3, 2]


async def last_metrics(settings: MockVllmSettings, **body: Any) -> Any:
    """The metrics beside the usage of a streamed answer of nine tokens."""
    request = {"model": "mock_vllm", "prompt": "abc", "max_tokens": 9, "ignore_eos": True}
    request |= {"stream": True, "stream_options": {"include_usage": True}, "temperature": 0, **body}
    async with (
        MockVllm(settings) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        answer = await http.post("/v1/completions", json=request)
    last = answer.text.split("\n\n")[-3]
    return httpx.Response(200, content=last[6:]).json().get("metrics")


async def test_an_answer_ends_with_its_own_counts_of_drafts_if_asked_to() -> None:
    """Chunks of 1, 3, 3 and 2 tokens: three steps of three drafts, of which two are accepted."""
    assert await last_metrics(SETTINGS) is None
    settings = replace(SETTINGS, per_request_spec_decode_metrics="summary")
    assert await last_metrics(settings, n=2, temperature=1) is None
    assert (await last_metrics(settings))["speculative_decoding"] == {
        "mean_acceptance_length": 3.0,
        "draft_acceptance_rate": pytest.approx(2 / 3),
        "acceptance_histogram": [0, 0, 3, 0],
        "num_spec_steps": 3,
        "num_accepted_draft_tokens": 6,
        "num_draft_tokens": 9,
        "num_spec_tokens": 3,
    }


@pytest.mark.parametrize("level", ["detailed", "summary"])
def test_counts_of_drafts_need_drafts(level: str) -> None:
    with pytest.raises(ValueError, match="per_request_spec_decode_metrics"):
        MockVllmSettings(per_request_spec_decode_metrics=level)


async def test_a_request_names_its_own_rates() -> None:
    rates = {"synthetic_acceptance_rates": [1, 1, 1, 1]}
    assert await chunk_sizes(SETTINGS, vllm_xargs=rates) == [1, 4, 4]
    rates = {"synthetic_acceptance_rates": [0, 0, 0]}
    assert await chunk_sizes(SETTINGS, vllm_xargs=rates) == [1] * 9


async def test_without_speculation_rates_are_ignored_as_by_vllm() -> None:
    rates = {"synthetic_acceptance_rates": "all"}
    settings = MockVllmSettings(tpot_ms=1, prefill_tokens_per_s=1e6)
    assert await chunk_sizes(settings, vllm_xargs=rates) == [1] * 9


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ([0.5], "a rate for each of the 3 draft tokens"),
        ([0.5, 0.6, 0.1], "that never rise"),
        ("high", "must be a list of numbers"),
    ],
)
async def test_wrong_rates_are_refused(rates: object, message: str) -> None:
    async with (
        MockVllm(SETTINGS) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        xargs = {"synthetic_acceptance_rates": rates}
        answer = await http.post(
            "/v1/completions", json={"model": "mock_vllm", "prompt": "a", "vllm_xargs": xargs}
        )
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ('{"num_speculative_tokens": 4}', "rejection_sample_method must be synthetic"),
    ],
)
def test_a_wrong_configuration_is_wrong_usage(text: str, message: str) -> None:
    result = CliRunner().invoke(main, ["mock-vllm", "--speculative-config", text])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
