"""`paceline doctor` on real engines that draft eight tokens of text that is hard to draft.

The bundled pair, sampled at temperature 1: drafts halve the tokens/s. On a plain vLLM server the
doctor finds the loss without a server to compare with; on `paceline serve` it measures the loss and
frees the governor. `benchmarks/doctor_losses.py` compares the amounts with the truth.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner

from engine.serving.paceline_server import READY_WITHIN_S, start
from paceline import demo
from paceline.cli import main
from paceline.foundation.servers.server_process import free_ports
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.engine.launch.layout import LayoutSettings, choose_layout

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1800)]

LENGTH = 8
_KV_CACHE_BYTES = 256 << 20
_NUM_ATTEMPTS = 3
"""A machine that computes something else meanwhile widens the intervals."""
_ADDRESSES = re.compile(r"serving \S+ on (\S+) \(admin (\S+)\)")


def _doctor(file: Path, *arguments: str) -> dict[str, Any]:
    options = ("--concurrency", "4", "--json", str(file))
    result = CliRunner().invoke(main, ["doctor", *arguments, *options])
    assert result.exit_code in (0, 1, 3), result.output  # 3: stock vLLM samples wrongly on CPUs
    return dict(json.loads(file.read_text()))


def _loss(document: dict[str, Any]) -> dict[str, Any] | None:
    findings = document["findings"]
    return next((one for one in findings if one["id"] == "speculation-loses"), None)


@pytest.fixture
def vllm_url(tmp_path: Path) -> Iterator[str]:
    """`vllm serve` without Paceline, drafting eight tokens."""
    port, _ = free_ports()
    settings = LayoutSettings(num_threads=1, kv_cache_bytes=_KV_CACHE_BYTES)
    layout = choose_layout(read_hardware(), settings)
    speculation = {
        "method": "draft_model", "model": str(demo.draft_path()), "num_speculative_tokens": LENGTH,
        "draft_sample_method": "probabilistic",
    }  # fmt: skip
    command = [
        *(str(Path(sys.executable).parent / "vllm"), "serve", str(demo.target_path())),
        *("--served-model-name", "m", "--host", "127.0.0.1", "--port", str(port)),
        *layout.vllm_args,
        *("--speculative-config", json.dumps(speculation)),
    ]
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_PLUGINS": ""}
    log = tmp_path / "vllm.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env={**os.environ, **layout.environment, **quiet}, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        deadline_s = time.monotonic() + READY_WITHIN_S
        while True:
            assert process.poll() is None, log.read_text()[-3000:]
            with suppress(httpx.TransportError):
                if httpx.get(f"{url}/health").status_code == 200:
                    break
            assert time.monotonic() < deadline_s, log.read_text()[-3000:]
            # sleep: the pause between two looks decides nothing
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()


def test_the_loss_of_a_plain_vllm_server_is_found(vllm_url: str, tmp_path: Path) -> None:
    for _ in range(_NUM_ATTEMPTS):
        document = _doctor(tmp_path / "d.json", vllm_url, "--probe", "--seconds", "30")
        finding = _loss(document)
        if finding is not None:
            break
    # Without a log: the processes on this machine show that it computes on a CPU.
    assert "vllm-known-defects" in {one["id"] for one in document["findings"]}
    assert {"versions", "cpu-kernels"} <= set(document["passed"])
    gain = document["probe"]["gain"]
    assert gain is not None, document["probe"]["gain_reason"]
    assert gain["value"] < 0.9
    assert finding is not None, gain
    assert finding["cost"]["basis"] == "estimated"
    assert 0.2 < finding["cost"]["share"] < 0.7


def test_a_fix_frees_the_governor_of_paceline_and_answers_come_faster(tmp_path: Path) -> None:
    engine = {"policy": "fixed", "draft_length": LENGTH, "kv_cache_bytes": _KV_CACHE_BYTES}
    (tmp_path / "paceline.yaml").write_text(yaml.safe_dump({"engine": engine}))
    server = start(tmp_path)
    try:
        found = _ADDRESSES.search(server.first_line())
        assert found is not None, server.errors.read_text()[-3000:]
        url, admin_url = found[1], found[2]
        for _ in range(_NUM_ATTEMPTS):
            document = _doctor(
                tmp_path / "d.json", admin_url, "--fix", "--data-url", url, "--seconds", "20"
            )
            if document["fix"]["is_kept"]:
                break
        assert document["fix"]["is_kept"], document["fix"]
        assert {"versions", "known-defects", "cpu-kernels"} <= set(document["passed"])
        finding = _loss(document)
        assert finding is not None
        assert finding["cost"]["basis"] == "measured"
        assert 0.2 < finding["cost"]["share"] < 0.7
        assert document["fix"]["gain"]["low"] > 1
        assert document["fix"]["gain"]["value"] > 1.2
        states = httpx.get(f"{admin_url}/admin/governor").json()["replicas"]
        assert {state["policy"] for state in states.values()} == {"goodput"}
    finally:
        server.process.kill()
        server.process.wait()
