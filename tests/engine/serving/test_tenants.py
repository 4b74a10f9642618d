"""Tenants have separate prefix caches, and no log contains prompts; one server for all tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml
from click.testing import CliRunner

from paceline.cli import main

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

MODEL = "paceline-demo"
SECRET = "zebra4711quokka"
"""A word of every prompt."""
PROMPT = f"# {SECRET}\n" + "def add(a, b):\n    return a + b\n\n" * 30
"""Longer than a block of vLLM's prefix cache, which holds 128 tokens on CPUs."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A server with keys."""

    http: httpx.Client
    admin: httpx.Client
    acme: dict[str, str]
    beta: dict[str, str]
    ops: dict[str, str]
    logs: tuple[Path, ...]

    def num_cached_tokens(self, headers: dict[str, str], prompt: str) -> int:
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 1}
        answer = self.http.post("/v1/completions", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        details = answer.json()["usage"]["prompt_tokens_details"]
        return int(details["cached_tokens"] or 0) if details else 0


def create_key(*arguments: str) -> dict[str, str]:
    result = CliRunner().invoke(main, ["keys", "create", *arguments])
    assert result.exit_code == 0, result.output
    return {"authorization": f"Bearer {result.stdout.strip()}"}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("tenants")
    files = {"file": str(folder / "keys"), "admin_key_file": str(folder / "admin-keys")}
    (folder / "paceline.yaml").write_text(
        yaml.safe_dump(
            {
                "server": {"port": 0, "admin_port": 0},
                "engine": {
                    "log_folder": str(folder),
                    "kv_cache_bytes": 512 * 1024**2,
                    "vllm_args": ["--enable-prompt-tokens-details"],
                },
                "keys": files,
            }
        )
    )
    keys = [create_key("--file", files["file"], "--tenant", name) for name in ("acme", "beta")]
    ops = create_key("--file", files["admin_key_file"], "--tenant", "ops")
    errors = folder / "stderr"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", "from paceline.cli import main; main()", "serve"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=folder,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"on (\S+) \(admin (\S+)\)", said)
        assert found is not None, errors.read_text()[-3000:]
        with (
            httpx.Client(base_url=found[1], timeout=60) as http,
            httpx.Client(base_url=found[2], timeout=60) as admin,
        ):
            yield Serving(http, admin, *keys, ops, (errors, folder / "engine-0.log"))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_the_ports_ask_for_their_own_keys(serving: Serving) -> None:
    assert serving.http.get("/ready").status_code == 200
    for headers, status in ((None, 401), (serving.ops, 401), (serving.acme, 200)):
        assert serving.http.get("/v1/models", headers=headers).status_code == status
    for headers, status in ((None, 401), (serving.acme, 401), (serving.ops, 200)):
        assert serving.admin.get("/admin/replicas", headers=headers).status_code == status


def test_a_tenant_hits_its_own_cached_prompts_and_no_others(serving: Serving) -> None:
    """By vLLM's count of cached tokens; a client could infer it from the time to first token."""
    assert serving.num_cached_tokens(serving.acme, PROMPT) == 0
    assert serving.num_cached_tokens(serving.acme, PROMPT) >= 128
    assert serving.num_cached_tokens(serving.beta, PROMPT) == 0
    assert serving.num_cached_tokens(serving.beta, PROMPT) >= 128


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 200),
        ({"stream": True}, 200),
        ({"stop": [SECRET]}, 200),
        ({"max_tokens": 100_000}, 400),
        ({"seed": SECRET}, 400),
        ({"structured_outputs": {"regex": f"({SECRET}"}}, 400),
        ({"structured_outputs": {"grammar": SECRET}}, 400),
        ({"structured_outputs": {"json": {"type": SECRET}}}, 400),
        ({"structured_outputs": {"choice": [SECRET], "regex": SECRET}}, 400),
        ({"truncation_side": SECRET[:10]}, 400),
        ({"reasoning_effort": SECRET}, 400),
        ({"messages": [{"role": SECRET, "content": SECRET}]}, None),
        ({"messages": [{"role": "tool", "content": SECRET}]}, None),
        ({"tool_choice": {"type": "function", "function": {"name": SECRET}}}, 400),
    ],
)
def test_no_log_has_the_text_of_a_request(
    serving: Serving, changes: dict[str, object], status: int | None
) -> None:
    messages = [{"role": "user", "content": PROMPT}]
    body = {"model": MODEL, "messages": messages, "max_tokens": 4, **changes}
    answer = serving.http.post("/v1/chat/completions", json=body, headers=serving.acme)
    assert status is None or answer.status_code == status, answer.text
    for log in serving.logs:
        leaks = [line for line in log.read_text().splitlines() if SECRET[:10] in line]
        assert not leaks, leaks
