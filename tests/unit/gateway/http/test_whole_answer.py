"""Only a whole answer of the route counts as one; errors, pages and halves are told apart."""

from __future__ import annotations

import gzip
import json

import pytest

from paceline.runtime.gateway.http.whole_answer import error_in, looks_whole

CHAT = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "né 😀",
                    "reasoning": None,
                    "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f"}}],
                },
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5},
    },
    ensure_ascii=False,
).encode()


@pytest.mark.parametrize(
    ("body", "content"),
    [
        (CHAT, "choices"),
        (b'{"choices":[],"error":null}', "choices"),
        (b'{"choices":[{"text":"\\"error\\": 1"}]}', "choices"),
        (b'{"choices":[{"message":{"content":null}}],"output":"hi","data":{}}', "choices"),
        (b'{"data":[{"embedding":[0.5]}]}', "data"),
        (b'{"output":[],"status":"incomplete","error":null}', "output"),
        (b' \n{"choices":[]}\n', "choices"),
    ],
)
def test_an_answer_has_no_error(body: bytes, content: str) -> None:
    assert error_in(body, content) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"x","code":500}}',
        b'{"error":"x"}',
        b'{"object":"error","message":"x","code":500}',
        b'{"choices":[],"error":{"message":"x"}}',
        b'{"output":[],"status":"failed","error":{"code":"server_error"}}',
    ],
)
def test_an_error_with_status_200_is_one(body: bytes) -> None:
    assert error_in(body, "choices") == body


@pytest.mark.parametrize("reason", [b"abort", b"error"])
def test_an_answer_that_the_engine_aborted_is_an_error(reason: bytes) -> None:
    body = b'{"choices":[{"index":0,"text":"a","finish_reason": "' + reason + b'"}]}'
    assert b"503" in (error_in(body, "choices") or b"")


def test_a_response_that_failed_and_embeddings_without_data_are_no_answers() -> None:
    failed = b'{"output":[],"status":"failed"}'
    assert error_in(failed, "output") == failed
    with pytest.raises(ValueError, match="no data"):
        error_in(b'{"data":[]}', "data")


@pytest.mark.parametrize("cut", [1, 2, 70, -1])
def test_half_an_answer_is_none(cut: int) -> None:
    with pytest.raises(ValueError, match="not whole JSON"):
        error_in(CHAT[:cut], "choices")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"<html>10.0.0.3</html>", "a page"),
        (gzip.compress(CHAT), "not whole JSON"),
        (CHAT + b"{}", "not whole JSON"),
        (b'data: {"choices":[]}\n\n', "not whole JSON"),
        (b"[]", "not whole JSON"),
        (b"null", "not whole JSON"),
        (b"{}", "no choices"),
        (b'{"detail":"/opt/vllm"}', "no choices"),
        (b'{"data":[]}', "no choices"),
        (b'{"choices":{}}', "not whole JSON"),
        (b'{"choices":[{}]}', "neither message nor text"),
        (b'{"choices":[{"message":"x"}]}', "not whole JSON"),
        (b'{"choices":[{"text":"\xff"}]}', "not whole JSON"),
        (b'{"choices":[],"x":' + b"[" * 100_000, "not whole JSON"),
    ],
)
def test_what_is_no_answer_is_refused_without_being_quoted(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        error_in(body, "choices")
    assert len(str(refused.value)) < 60


@pytest.mark.parametrize("start", [b"{", b" \r\n{", b"\xef\xbb\xbf{", b"[", b"<html>", b'"x"'])
def test_a_document_is_known_by_its_beginning(start: bytes) -> None:
    assert looks_whole(start)


@pytest.mark.parametrize(
    "start", [b"data", b":", b"\n\nid: 7", b"\xef\xbb\xbfevent", b"", b"retry"]
)
def test_a_stream_is_known_by_its_beginning(start: bytes) -> None:
    assert not looks_whole(start)
