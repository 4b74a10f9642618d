"""The real clients: how to run a session of each, and where their results differ."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PACKAGES = HERE.parent.parent / ".clients" / "python"
_SESSION_TIMEOUT_S = 300.0
"""A session takes 5 to 15 s; on a busy machine importing a client alone can take a minute."""


@dataclass(frozen=True)
class Client:
    """One client and the results in which it differs from the others."""

    command: tuple[str, ...]
    errors: dict[str, list[object]]
    """For each error of the gateway: the client's class, the status, and the code if exposed."""
    broken: object = field(default_factory=lambda: ["APIError", None, "engine_unavailable"])
    """The result of a stream that the engine broke."""
    lists_models: bool = False
    parses_arguments: bool = False
    num_attempts_at_500: int = 1
    """Attempts at a request answered with 500, which the gateway marks as not retryable."""


def python(name: str) -> tuple[str, ...]:
    return (sys.executable, str(HERE / "sessions" / name))


def node(name: str) -> tuple[str, ...]:
    return ("node", str(HERE / "node" / name))


def errors(*classes: str) -> dict[str, list[object]]:
    """Return the seven errors as a client with these exception classes shows them."""
    expected = (
        ("bad key", 401, "invalid_api_key"),
        ("bad field", 400, "invalid_value"),
        ("bad model", 404, "model_not_found"),
        ("too long", 400, "context_length_exceeded"),
        ("full", 429, "rate_limited"),
        ("fault", 500, "engine_error"),
        ("down", 503, "engine_unavailable"),
    )
    return {
        name: [kind, status, code]
        for kind, (name, status, code) in zip(classes, expected, strict=True)
    }


OPENAI_ERRORS = errors(
    "AuthenticationError", "BadRequestError", "NotFoundError", "BadRequestError",
    "RateLimitError", "InternalServerError", "InternalServerError",
)  # fmt: skip
LANGCHAIN_ERRORS = errors(
    "OpenAIAuthenticationError", "OpenAIInvalidRequestError", "OpenAIModelNotFoundError",
    "OpenAIInvalidRequestError", "OpenAIRateLimitError", "OpenAIAPIError", "OpenAIAPIError",
)  # fmt: skip
LITELLM_ERRORS = {
    "bad key": ["AuthenticationError", 401, None],
    "bad field": ["BadRequestError", 400, "invalid_value"],
    "bad model": ["NotFoundError", 404, None],
    "too long": ["ContextWindowExceededError", 400, None],
    "full": ["RateLimitError", 429, "429"],
    "fault": ["InternalServerError", 500, "engine_error"],
    "down": ["ServiceUnavailableError", 503, None],
}
AI_SDK_ERRORS = errors(
    "APICallError",
    "APICallError",
    "APICallError",
    "APICallError",
    "RetryError",
    "RetryError",
    "RetryError",
)

CLIENTS = {
    "openai-python": Client(python("openai_python.py"), OPENAI_ERRORS, lists_models=True),
    "langchain-openai": Client(
        python("langchain_openai_session.py"), LANGCHAIN_ERRORS, parses_arguments=True
    ),
    "litellm": Client(
        python("litellm_session.py"), LITELLM_ERRORS, ["MidStreamFallbackError", 500, None]
    ),
    "openai-node": Client(node("openai_node.mjs"), OPENAI_ERRORS, lists_models=True),
    "ai-sdk": Client(
        node("ai_sdk.mjs"), AI_SDK_ERRORS, "reported", parses_arguments=True, num_attempts_at_500=2
    ),
}


async def run_session(
    client: Client, base_url: str, model: str, key: str, *steps: str
) -> dict[str, Any]:
    """Run the steps in a process of their own and return the result of each."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(PACKAGES),
        "SESSION_API_KEY": key,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # otherwise litellm fetches it from the network
        "LANGSMITH_TRACING": "false",
        "AI_SDK_LOG_WARNINGS": "false",
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
