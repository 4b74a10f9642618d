"""The form of requests that a server answers, and why it answers none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from paceline.foundation.load.config import BenchError
from paceline.foundation.load.quick_requests import SessionSender, find_form
from paceline.foundation.load.records import RequestOutcome
from paceline.foundation.workloads import RequestSpec, SamplingSettings, load_workload


class Refusing:
    """A server that refuses cache_salt, and else answers with another error."""

    def __init__(self, error: str) -> None:
        self._error = error
        self.num_requests = 0

    async def send(self, spec: RequestSpec, scheduled_s: float, zero_s: float) -> Any:
        self.num_requests += 1
        error = "status 400: no cache_salt" if "cache_salt" in str(spec) else self._error
        return SimpleNamespace(is_ok=False, outcome=RequestOutcome.HTTP_ERROR, error=error)


async def error_of(server: Refusing) -> str:
    sampling = SamplingSettings("m", 0.0, None, 8, 0, {})
    prompts = load_workload("hard").prompts(0)
    with pytest.raises(BenchError) as raised:
        await find_form(cast("SessionSender", server), prompts, sampling, lambda: 0.0)
    return str(raised.value)


async def test_every_reason_is_named_once() -> None:
    """The first refusal alone would hide the second."""
    assert await error_of(Refusing("status 500: broken")) == (
        "the server answers no request: status 400: no cache_salt; status 500: broken"
    )


@pytest.mark.parametrize(
    "error",
    [
        "status 503: No engine is ready at the moment: 1 starting, 0 down.",
        "status 503: Loading model",  # llama.cpp
        "status 502: <html>Bad Gateway",  # a proxy before a server whose port is closed
        "status 504: upstream request timeout",
    ],
)
async def test_a_server_that_is_not_ready_is_said_first_and_asked_no_further(error: str) -> None:
    server = Refusing(error)
    message = await error_of(server)
    assert message.startswith(f"the server is not ready, or still starts: {error}")
    assert "cache_salt" not in message
    assert server.num_requests == 2
