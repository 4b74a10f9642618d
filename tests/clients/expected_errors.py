"""The errors of the gateway as each client shows them."""

from __future__ import annotations

Errors = dict[str, list[object]]
"""For each error of the gateway: the client's class, the status, and the code if exposed."""

_GATEWAY = (
    ("bad key", 401, "invalid_api_key"),
    ("bad field", 400, "invalid_value"),
    ("bad model", 404, "model_not_found"),
    ("too long", 400, "context_length_exceeded"),
    ("full", 429, "rate_limited"),
    ("fault", 500, "engine_error"),
    ("down", 503, "engine_unavailable"),
)


def errors(*classes: str) -> Errors:
    """Return the seven errors as a client with these exception classes shows them."""
    return {
        name: [kind, status, code]
        for kind, (name, status, code) in zip(classes, _GATEWAY, strict=True)
    }


OPENAI = errors(
    "AuthenticationError", "BadRequestError", "NotFoundError", "BadRequestError",
    "RateLimitError", "InternalServerError", "InternalServerError",
)  # fmt: skip
LANGCHAIN = errors(
    "OpenAIAuthenticationError", "OpenAIInvalidRequestError", "OpenAIModelNotFoundError",
    "OpenAIInvalidRequestError", "OpenAIRateLimitError", "OpenAIAPIError", "OpenAIAPIError",
)  # fmt: skip
LITELLM: Errors = {
    "bad key": ["AuthenticationError", 401, None],
    "bad field": ["BadRequestError", 400, "invalid_value"],
    "bad model": ["NotFoundError", 404, None],
    "too long": ["ContextWindowExceededError", 400, None],
    "full": ["RateLimitError", 429, "429"],
    "fault": ["InternalServerError", 500, "engine_error"],
    "down": ["ServiceUnavailableError", 503, None],
}
AI_SDK = errors(*["APICallError"] * 4, *["RetryError"] * 3)
PYDANTIC_AI = errors(
    "ModelAuthenticationError", "ModelRequestRejectedError", "ModelNotFoundError",
    "ModelContextWindowExceededError", "ModelRateLimitError", "ModelServerError",
    "ModelUnavailableError",
)  # fmt: skip
HAYSTACK = errors(*["PipelineRuntimeError"] * 7)
AGNO: Errors = {
    "bad key": ["ModelProviderError", 401, "model_provider_error"],
    "bad field": ["ModelProviderError", 400, "model_provider_error"],
    "bad model": ["ModelProviderError", 404, "model_provider_error"],
    "too long": ["ContextWindowExceededError", 400, "context_window_exceeded_error"],
    "full": ["ModelRateLimitError", 429, "model_rate_limit_error"],
    "fault": ["ModelProviderError", 500, "model_provider_error"],
    "down": ["ModelProviderError", 503, "model_provider_error"],
}
AGENT_FRAMEWORK = errors(*["ChatClientException"] * 7)
