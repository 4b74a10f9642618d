"""The requests of a trace, by text and by script."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from paceline.foundation.shifting_trace import Category, TextSource, find_trace
from paceline.foundation.workloads import RequestSpec, WorkloadError, load_workload
from paceline.workbench.bench.trace.config import AcceptanceMode, TraceConfig
from paceline.workbench.bench.trace.requests import make_source
from unit.bench.trace.runs import closed, make_trace, scripted

TRACE = find_trace("easy-hard-easy")
MIXED = find_trace("mixed-chat")


def body_of(spec: RequestSpec) -> dict[str, Any]:
    body = json.loads(spec.body)
    assert isinstance(body, dict)
    return body


def config(acceptance: AcceptanceMode, **settings: Any) -> TraceConfig:
    given = {"url": "http://127.0.0.1:1", "trace": TRACE, **settings}
    return TraceConfig(acceptance=acceptance, **given)


def test_a_scripted_request_has_the_lengths_and_the_rates_of_its_category() -> None:
    source = make_source(config(AcceptanceMode.SCRIPTED), "m", "run-")
    spec = source.next_request(1)
    body = body_of(spec)
    assert (spec.task, spec.path, spec.request_id) == ("hard", "/v1/completions", "run-1000000")
    assert 32 <= len(body["prompt"]) <= 256
    assert 64 <= body["max_tokens"] <= 384
    assert body["ignore_eos"] is True
    rates = body["vllm_xargs"]["synthetic_acceptance_rates"]
    assert rates[:3] == pytest.approx([0.25, 0.05, 0.01])
    assert len(rates) == 32


def test_requests_of_synthetic_acceptance_carry_no_rates() -> None:
    """vLLM has them from its start."""
    synthetic = config(AcceptanceMode.SYNTHETIC, url=None, serve_command="serve")
    body = body_of(make_source(synthetic, "m", "run-").next_request(0))
    assert "vllm_xargs" not in body


@pytest.mark.parametrize("acceptance", [AcceptanceMode.TEXT, AcceptanceMode.SCRIPTED])
def test_a_request_is_the_same_however_many_others_were_sent(acceptance: AcceptanceMode) -> None:
    """A slow engine sends fewer requests in phase 0; phase 1 must not depend on that."""
    slow, fast = (make_source(config(acceptance, trace=MIXED), "m", "run-") for _ in range(2))
    for _ in range(30):
        fast.next_request(0)
    for _ in range(20):
        assert fast.next_request(1) == slow.next_request(1)


def test_prompts_of_a_text_request_come_from_its_workload_in_the_order_of_the_phase() -> None:
    source = make_source(config(AcceptanceMode.TEXT, seed=5), "m", "run-")
    sent = [body_of(source.next_request(2))["messages"] for _ in range(3)]
    prompts = load_workload("predictable").prompts(5 + 2)
    assert sent == [list(prompt.messages or ()) for prompt in prompts[:3]]


def test_temperature_and_limit_are_those_of_the_category_else_of_the_workload() -> None:
    hard = body_of(make_source(config(AcceptanceMode.TEXT), "m", "").next_request(1))
    assert hard["temperature"] == 1.0
    cool = Category("hard", TextSource("hard", temperature=0.5, max_tokens=7))
    trace = make_trace([cool], [closed("a", 1, "hard", 1.0)])
    body = body_of(make_source(config(AcceptanceMode.TEXT, trace=trace), "m", "").next_request(0))
    assert (body["temperature"], body["max_tokens"]) == (0.5, 7)


def test_a_trace_that_lacks_what_the_run_needs_is_refused() -> None:
    only_script = make_trace([scripted("easy", 0.5)], [closed("a", 1, "easy", 1.0)])
    with pytest.raises(WorkloadError, match="'easy' of trace 'test' has no text"):
        make_source(config(AcceptanceMode.TEXT, trace=only_script), "m", "")
    only_text = make_trace([Category("t", TextSource("code"))], [closed("a", 1, "t", 1.0)])
    with pytest.raises(WorkloadError, match="has no scripted acceptance"):
        make_source(config(AcceptanceMode.SCRIPTED, trace=only_text), "m", "")
    sessions = Category("s", TextSource("sessions"))
    trace = make_trace([sessions], [closed("a", 1, "s", 1.0)])
    with pytest.raises(WorkloadError, match="which has sessions of several turns"):
        make_source(config(AcceptanceMode.TEXT, trace=trace), "m", "")


@pytest.mark.parametrize("acceptance", [AcceptanceMode.TEXT, AcceptanceMode.SCRIPTED])
def test_runs_differ_in_their_cache_salt_alone(acceptance: AcceptanceMode) -> None:
    first, second, plain = (
        body_of(make_source(config(acceptance), "m", "run-", salt).next_request(0))
        for salt in ("one", "two", None)
    )
    assert first == {**plain, "cache_salt": "one"}
    assert second == {**plain, "cache_salt": "two"}
    assert "cache_salt" not in plain


def test_a_category_that_no_phase_uses_may_lack_it() -> None:
    silent = scripted("spare", 0.5)
    trace = replace(TRACE, categories=(*TRACE.categories, silent))
    make_source(config(AcceptanceMode.TEXT, trace=trace), "m", "").next_request(0)
