"""Errors in the two formats in which vLLM refuses a request.

Pydantic's errors list every wrong field under "validation errors". The texts of vLLM's own checks
end with "(parameter=…, value=…)".
"""

from __future__ import annotations

from typing import Any

Detail = dict[str, Any]
"""One wrong field, under pydantic's keys."""


class RequestRefused(Exception):
    """The request is refused: its answer is an error with these fields."""

    def __init__(
        self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.param = status, message, kind, param


def describe_error(loc: str, kind: str, message: str, value: object) -> Detail:
    """Describe one wrong field as pydantic does."""
    shown = str(value)
    if isinstance(value, dict | list):
        shown = f"<{type(value).__name__} of {len(value)} items>"
    return {"type": kind, "loc": loc, "msg": message, "input": shown}


def ill_formed(param: str, *details: Detail) -> RequestRefused:
    """Refuse with pydantic's errors, in the format in which vLLM reports them."""
    label = "error" if len(details) == 1 else "errors"
    listed = "\n".join(f"  {detail}" for detail in details)
    return RequestRefused(
        400, f"{len(details)} validation {label}:\n{listed}", "Bad Request", param
    )


def invalid(message: str, param: str | None = None, value: object = None) -> RequestRefused:
    """Refuse in the format of vLLM's own checks."""
    extras = [f"parameter={param}"] * (param is not None) + [f"value={value}"] * (value is not None)
    return RequestRefused(
        400, f"{message} ({', '.join(extras)})" if extras else message, param=param
    )
