"""Error bodies of other servers, on samples whose sources `data/dialects/README.md` names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.runtime.gateway.fleet.error_bodies import (
    error_message_of,
    is_context_error,
    status_meant,
)

ERRORS = json.loads((Path(__file__).parents[1] / "data" / "dialects" / "errors.json").read_text())


@pytest.mark.parametrize("sample", ERRORS, ids=[sample["dialect"] for sample in ERRORS])
def test_the_sample_errors_of_each_server_are_parsed(sample: dict[str, object]) -> None:
    body = str(sample["body"]).encode()
    message, param = error_message_of(sample["dialect"], sample["status"], body)
    assert (message, param) == (sample["message"], sample["param"])
    assert is_context_error(message) == sample["is_context_error"]


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        (b'{"error":{"message":"m","param":"p"}}', "m", "p"),
        (b'{"error":{"message":"m","param":""}}', "m", None),
        (b'{"error":{"message":"m","http_status_code":422}}', "m", None),
        (b'{"error":"m"}', "m", None),
        (b'{"message":"m","param":"p","object":"error"}', "m", "p"),
        (b'{"detail":"Unknown model: x"}', "Unknown model: x", None),
        (
            b'{"detail":[{"loc":["body","messages",0,"role"],"msg":"a"},{"loc":[],"msg":"b"}]}',
            "a; b",
            "messages.0.role",
        ),
        (b"Failed to parse the body as JSON", "Failed to parse the body as JSON", None),
        (b'"m"', "m", None),
        (b"", "", None),
        (b"{}", "", None),
        (b"[]", "", None),
        (b'{"error":null}', "", None),
        (b'{"error":{"message":5}}', "", None),
        (b'{"detail":[5]}', "", None),
        (b'{"detail":{"a":1}}', "", None),
        (b"<html><body>502</body></html>", "", None),
        (b"\xff\xfe", "", None),
        (b"x" * 3000, "", None),
    ],
)  # fmt: skip
def test_every_error_shape_gives_its_message(body: bytes, message: str, param: str | None) -> None:
    assert error_message_of("openai", 400, body) == (message, param)


def test_plain_text_with_a_5xx_is_ignored() -> None:
    """It comes from a proxy or is a stack trace."""
    assert error_message_of("tgi", 502, b"upstream connect error") == ("", None)


@pytest.mark.parametrize(
    ("status", "message", "meant"),
    [
        (422, "Model is overloaded", 429),
        (424, "Request failed during generation: Server error: transport error", 500),
        (422, "Incomplete generation stream", 500),
        (422, "Input validation error: `top_p` must be > 0.0 and < 1.0", 422),
        (422, "the Model is overloaded", 422),
    ],
)
def test_the_status_that_tgi_means_is_in_its_message(status: int, message: str, meant: int) -> None:
    assert status_meant("tgi", status, message) == meant
    assert status_meant("openai", status, message) == status


def test_llama_cpp_python_reports_a_wrong_field_with_a_500() -> None:
    message = "1 validation error:\n  {'type': 'float_parsing', 'msg': 'should be a number'}"
    assert status_meant("llamacpp-python", 500, message) == 400
    assert status_meant("llamacpp-python", 500, "llama_decode returned -3") == 500
    assert status_meant("llamacpp-python", 404, message) == 404
    assert status_meant("openai", 500, message) == 500
