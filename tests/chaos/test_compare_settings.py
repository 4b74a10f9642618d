"""`paceline bench compare --settings` on a real gateway whose engine has a real governor."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.bench.bench_process import interrupt, start_bench

from chaos.gateway_process import HTTP
from chaos.monitoring.governed_engine import MODEL
from chaos.monitoring.monitored_gateway import MonitoredGateway, running_gateway


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


def governor(running: MonitoredGateway) -> dict[str, Any]:
    answer = HTTP.get(f"{running.gateway.admin_url}/admin/governor").json()
    state: dict[str, Any] = answer["replicas"]["engine-0"]
    return {key: state[key] for key in ("policy", "policy_parameters", "ceiling")}


FOUND = {"policy": "fixed", "policy_parameters": {"draft_length": 3}, "ceiling": 3}


def words_for(running: MonitoredGateway, prompts: Path, *settings: str) -> list[str]:
    running.patch("/admin/governor", {"draft_length": 3, "ceiling": 3})
    prompts.write_text('{"prompt": "abc", "max_tokens": 4}')
    return [
        *("compare", running.gateway.url, "--settings", *settings, "--model", MODEL),
        *("--admin-url", running.gateway.admin_url, "--prompts", str(prompts)),
        *("--block-seconds", "0.05"),
    ]


def test_two_settings_take_turns_and_what_was_found_returns(
    running: MonitoredGateway, tmp_path: Path
) -> None:
    """The engine's speed does not depend on drafts, so that any verdict is possible."""
    report, page = tmp_path / "report.json", tmp_path / "report.html"
    words = words_for(running, tmp_path / "p.jsonl", "policy=goodput,ceiling=4", "on")
    process = start_bench(
        *words, "--max-minutes", "0.02", "--json", str(report), "--html", str(page)
    )
    output, errors = process.communicate(timeout=120)
    assert process.returncode in (0, 3), errors
    assert governor(running) == FOUND
    assert "policy=goodput,ceiling=4 (policy goodput, ceiling 4)" in output
    assert "on (draft length 3, ceiling 3)" in output
    document = json.loads(report.read_text())
    assert document["arms"]["b"]["setting"] == "on"
    assert document["difference"]["ttft_ms"]["relative"] is not None
    assert "Comparison of two settings" in page.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_what_was_found_returns(
    running: MonitoredGateway, tmp_path: Path, number: signal.Signals
) -> None:
    report = tmp_path / "report.json"
    words = words_for(running, tmp_path / "p.jsonl", "off", "ceiling=1")
    ended = interrupt(
        start_bench(*words, "--json", str(report)),
        when=lambda: governor(running)["ceiling"] == 1,
        number=number,
    )
    assert ended.exit_code == 130, ended.errors
    assert governor(running) == FOUND
    assert json.loads(report.read_text())["is_interrupted"] is True


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("off", "draft_length=9"), "B is 'draft_length=9', which the server refuses: "),
        (("off", "policy=best"), "policy is 'best'; it must be one of"),
    ],
)
def test_a_setting_that_the_server_refuses_is_named(
    running: MonitoredGateway, tmp_path: Path, settings: tuple[str, str], message: str
) -> None:
    process = start_bench(*words_for(running, tmp_path / "p.jsonl", *settings))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert message in errors
    assert governor(running) == FOUND
