"""The real clients: how to run a session of each, and where their results differ."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clients import expected_errors
from clients.expected_errors import Errors
from clients.scripted_engine import CALLS

HERE = Path(__file__).parent
PACKAGES = HERE.parent.parent / ".clients" / "python"
_SESSION_TIMEOUT_S = 300.0
"""A session takes 5 to 15 s; on a busy machine importing a client alone can take a minute."""

Failing = Mapping[str, tuple[str | None, str, Mapping[str, object]]]
"""Requests that must fail, by name: the model (None: the one served), prompt and parameters."""

QUESTION = "Say hello."

SCRIPTED_ERRORS: Failing = {
    "bad key": (None, QUESTION, {}),
    "bad field": (None, QUESTION, {"top_p": 7}),
    "bad model": ("absent", QUESTION, {}),
    "too long": (None, "error 400", {}),
    "full": (None, "error 429", {}),
    "fault": (None, "error 500", {}),
    "down": (None, "error 503", {}),
}
"""Some of the prompts select an error of the scripted engine."""

_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # otherwise litellm fetches it from the network
    "LANGSMITH_TRACING": "false",
    "AI_SDK_LOG_WARNINGS": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "AGNO_TELEMETRY": "false",
}


@dataclass(frozen=True)
class Client:
    """One client and the results in which it differs from the others."""

    command: tuple[str, ...]
    errors: Errors
    broken: object = field(default_factory=lambda: ["APIError", None, "engine_unavailable"])
    """The result of a stream that the engine broke."""
    lists_models: bool = False
    shows_finish_reason: bool = True
    shows_finish_reason_of_streams: bool = True
    parses_arguments: bool = False
    num_tool_answers: int = 1
    """Requests with tool results: an agent sends one in each of its two runs."""
    sent_call_ids: tuple[str, ...] = tuple(call["id"] for call in CALLS)
    """The ids of the tool calls in these requests."""
    num_attempts_at_500: int = 1
    """Attempts at a request answered with 500, which the gateway marks as not retryable."""


def python(name: str) -> tuple[str, ...]:
    return (sys.executable, str(HERE / "sessions" / name))


def node(name: str) -> tuple[str, ...]:
    return ("node", str(HERE / "node" / name))


CLIENTS = {
    "openai-python": Client(python("openai_python.py"), expected_errors.OPENAI, lists_models=True),
    "langchain-openai": Client(
        python("langchain_openai_session.py"), expected_errors.LANGCHAIN, parses_arguments=True
    ),
    "litellm": Client(
        python("litellm_session.py"),
        expected_errors.LITELLM,
        broken=["MidStreamFallbackError", 500, None],
    ),
    "openai-node": Client(node("openai_node.mjs"), expected_errors.OPENAI, lists_models=True),
    "ai-sdk": Client(
        node("ai_sdk.mjs"),
        expected_errors.AI_SDK,
        broken="reported",
        parses_arguments=True,
        num_attempts_at_500=2,
    ),
    "pydantic-ai": Client(
        python("pydantic_ai_session.py"),
        expected_errors.PYDANTIC_AI,
        broken=["ModelUnavailableError", 503, "engine_unavailable"],
        parses_arguments=True,
        num_tool_answers=2,
    ),
    "haystack": Client(
        python("haystack_session.py"),
        expected_errors.HAYSTACK,
        broken=["PipelineRuntimeError", None, "engine_unavailable"],
        parses_arguments=True,
        num_tool_answers=2,
    ),
    "smolagents": Client(
        python("smolagents_session.py"),
        expected_errors.OPENAI,
        shows_finish_reason_of_streams=False,
        parses_arguments=True,
        num_tool_answers=0,
    ),
    "agno": Client(
        python("agno_session.py"),
        expected_errors.AGNO,
        broken=["ModelProviderError", 502, "model_provider_error"],
        sent_call_ids=tuple(f"call_{number:035}" for number in (0, 1)),
        shows_finish_reason=False,
        shows_finish_reason_of_streams=False,
        parses_arguments=True,
        num_tool_answers=2,
    ),
    "agent-framework": Client(
        python("agent_framework_session.py"),
        expected_errors.AGENT_FRAMEWORK,
        broken=["ChatClientException", None, "engine_unavailable"],
        num_tool_answers=2,
    ),
    "openai-agents": Client(
        python("openai_agents_session.py"),
        expected_errors.OPENAI,
        shows_finish_reason=False,
        shows_finish_reason_of_streams=False,
        num_tool_answers=2,
    ),
}


async def run_session(
    client: Client,
    base_url: str,
    model: str,
    key: str,
    *steps: str,
    question: str = QUESTION,
    failing: Failing = SCRIPTED_ERRORS,
) -> dict[str, Any]:
    """Run the steps in a process of their own and return the result of each."""
    environment = {
        **os.environ,
        **_ENVIRONMENT,
        "PYTHONPATH": str(PACKAGES),
        "SESSION_API_KEY": key,
        "SESSION_QUESTION": question,
        "SESSION_ERRORS": json.dumps(failing),
    }
    process = await asyncio.create_subprocess_exec(
        *client.command, base_url, model, *steps, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_SESSION_TIMEOUT_S):
            output, errors_text = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors_text.decode()
    return json.loads(output.splitlines()[-1])
