"""Tenants have separate prefix caches, and no log contains prompts."""

from __future__ import annotations

import pytest

from engine.serving.paceline_server import MODEL, Headers, Serving

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

SECRET = "zebra4711quokka"
"""A word of every prompt."""
PROMPT = f"# {SECRET}\n" + "def add(a, b):\n    return a + b\n\n" * 30
"""Longer than a block of vLLM's prefix cache, which holds 128 tokens on CPUs."""


def num_cached_tokens(serving: Serving, headers: Headers, prompt: str) -> int:
    """Prompt tokens that the engine had in its prefix cache."""
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 1}
    answer = serving.http.post("/v1/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    details = answer.json()["usage"]["prompt_tokens_details"]
    return int(details["cached_tokens"] or 0) if details else 0


def test_the_ports_ask_for_their_own_keys(serving: Serving) -> None:
    assert serving.http.get("/ready").status_code == 200
    for headers, status in ((None, 401), (serving.ops, 401), (serving.acme, 200)):
        assert serving.http.get("/v1/models", headers=headers).status_code == status
    for headers, status in ((None, 401), (serving.acme, 401), (serving.ops, 200)):
        assert serving.admin.get("/admin/replicas", headers=headers).status_code == status


def test_a_tenant_hits_its_own_cached_prompts_and_no_others(serving: Serving) -> None:
    """By vLLM's count of cached tokens; a client could infer it from the time to first token."""
    assert num_cached_tokens(serving, serving.acme, PROMPT) == 0
    assert num_cached_tokens(serving, serving.acme, PROMPT) >= 128
    assert num_cached_tokens(serving, serving.beta, PROMPT) == 0
    assert num_cached_tokens(serving, serving.beta, PROMPT) >= 128


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
