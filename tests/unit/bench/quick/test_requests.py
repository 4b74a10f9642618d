"""The form of requests that a server answers, and why it answers none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from paceline.bench.load.records import RequestOutcome
from paceline.bench.quick.requests import SessionSender, find_form
from paceline.bench.run.config import BenchError
from paceline.workloads import RequestSpec, SamplingSettings, load_workload


class Starting:
    """A server that refuses cache_salt, and else has no engine yet."""

    async def send(self, spec: RequestSpec, scheduled_s: float, zero_s: float) -> Any:
        error = "400: no cache_salt" if "cache_salt" in str(spec) else "503: engine starting"
        return SimpleNamespace(is_ok=False, outcome=RequestOutcome.HTTP_ERROR, error=error)


async def test_every_reason_is_named_once() -> None:
    """The first refusal alone would hide that no engine is ready."""
    sampling = SamplingSettings("m", 0.0, None, 8, 0, {})
    prompts = load_workload("hard").prompts(0)
    with pytest.raises(BenchError) as raised:
        await find_form(cast("SessionSender", Starting()), prompts, sampling, lambda: 0.0)
    assert str(raised.value) == (
        "the server answers no request: 400: no cache_salt; 503: engine starting"
    )
