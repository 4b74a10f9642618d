"""`vllm serve` with `--scheduler-cls`, without the rest of Paceline.

The server is shared with `test_cut_streams.py` and `test_gateway_engine.py`, whose last test kills
it.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from click.testing import CliRunner

from engine.serving.vllm_server import MAX_DRAFT_LENGTH, MODEL, VllmServer
from paceline.cli import main

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


def complete(server: VllmServer, **request: Any) -> None:
    body = {"model": MODEL, "prompt": "def add(a, b):\n", "max_tokens": 48} | request
    with server.client() as client:
        answer = client.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text


def counted(server: VllmServer) -> dict[str, float]:
    """vLLM's vllm:spec_decode_* counters, by the part of the name that differs."""
    with server.client() as client:
        text = client.get("/metrics").text
    found = re.findall(r"^vllm:spec_decode_num_(\w+)_total\{[^}]*\} (\S+)$", text, re.M)
    return {name: float(value) for name, value in found}


@pytest.mark.parametrize("length", [3, 0, MAX_DRAFT_LENGTH])
def test_the_draft_length_follows_the_policy(vllm_server: VllmServer, length: int) -> None:
    """With a fixed length every draft has that many tokens, by vLLM's counters."""
    assert vllm_server.control(op="set", draft_length=length)["ok"]
    complete(vllm_server, temperature=0, max_tokens=2)  # verifies drafts of the length before
    before = counted(vllm_server)
    complete(vllm_server, temperature=0)
    after = counted(vllm_server)
    num_drafts = after["drafts"] - before["drafts"]
    assert (num_drafts > 0) == (length > 0)
    assert after["draft_tokens"] - before["draft_tokens"] == length * num_drafts


def governor_on_the_page(server: VllmServer, *, num_steps: int) -> dict[str, float]:
    """The governor's samples by name and labels, once they count `num_steps`; they are renewed once
    a second."""
    deadline_s = time.monotonic() + 30.0
    while True:
        with server.client() as client:
            text = client.get("/metrics").text
        found = re.findall(r"^paceline_governor_(\S+) (\S+)$", text, re.M)
        page = {name: float(value) for name, value in found}
        if page.get('steps_total{replica="engine-0"}') == num_steps:
            return page
        assert time.monotonic() < deadline_s, page
        # sleep: the pause between two looks decides nothing
        time.sleep(0.1)


def test_the_governor_is_on_vllms_page(vllm_server: VllmServer) -> None:
    """Policy, steps by length, acceptance by position, and step times beside the table of costs."""
    assert vllm_server.control(op="set", draft_length=2)["ok"]
    complete(vllm_server, temperature=0)
    state = vllm_server.control(op="state")["state"]
    page = governor_on_the_page(vllm_server, num_steps=state["steps_total"])
    of = 'replica="engine-0"'
    assert page[f"draft_length{{{of}}}"] == 2
    assert page[f'policy_info{{policy="fixed",{of}}}'] == 1
    assert page[f"safe_plan_steps_total{{{of}}}"] == 0
    assert page[f'length_steps_total{{draft_length="2",{of}}}'] > 0
    accepted, drafted = (
        page[f'{name}_by_position_total{{position="0",{of}}}'] for name in ("accepted", "drafted")
    )
    assert 0 < accepted <= drafted
    measured_s, table_s = (
        page[f'{name}_step_seconds_total{{draft_length="2",{of}}}']
        for name in ("measured", "table")
    )
    assert measured_s > 0.0
    assert table_s > 0.0
    assert page[f"step_slowdown{{{of}}}"] > 0.0


def test_the_command_line_changes_the_governor(vllm_server: VllmServer) -> None:
    """Of a server without an admin port, by its process id."""
    pid = str(vllm_server.process.pid)
    result = CliRunner().invoke(main, ["governor", "set", pid, "--policy", "goodput", "--json"])
    assert result.exit_code == 0, result.output
    [state] = json.loads(result.output)["replicas"].values()
    assert state["policy"] == "goodput"


def test_vllms_metrics_agree_with_ours(vllm_server: VllmServer) -> None:
    """Under the default policy, greedy and sampled requests: all totals are equal."""
    assert vllm_server.control(op="set", policy="goodput")["ok"]
    for temperature in (0.0, 1.0, 0.7):
        complete(vllm_server, temperature=temperature, n=1)
    found, state = counted(vllm_server), vllm_server.control(op="state")["state"]
    assert found["drafts"] == state["num_drafts_total"] > 0
    assert found["draft_tokens"] == state["drafted_tokens_total"]
    assert found["accepted_tokens"] == state["accepted_tokens_total"]
    assert state["policy"] == "goodput"
    assert state["policy_errors_total"] == 0
