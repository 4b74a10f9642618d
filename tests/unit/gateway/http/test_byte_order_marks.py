"""A body may begin with a byte order mark of UTF-8, as vLLM allows; another encoding is named."""

from __future__ import annotations

import codecs
import json

import pytest

from paceline.runtime.gateway.http.asgi import Message
from paceline.runtime.gateway.http.body import Body, read_body
from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.http.strict_json import parse_object
from paceline.runtime.gateway.settings import GatewaySettings, JsonLimits
from unit.gateway.conftest import Served, chat

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARK = codecs.BOM_UTF8
TEXT = b'{"a": "\xef\xbb\xbf", "b": [1, 2]}'
JSON = {"content-type": "application/json"}


async def read(*parts: bytes) -> Body:
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages[-1]["more_body"] = False
    waiting = iter(messages)

    async def receive() -> Message:
        return next(waiting)

    return await read_body(receive, GatewaySettings())


@pytest.mark.parametrize("text", [TEXT, b"{}", b"", b"\xef", b"\xef\xbb", b" " + MARK, MARK])
async def test_one_mark_is_removed_wherever_the_parts_are_cut(text: bytes) -> None:
    data = MARK + text
    expected = await read(text) if not text.startswith(MARK) else None
    whole = await read(data)
    assert whole.data == text
    if expected is not None:
        assert whole == expected
    assert await read(*(bytes([one]) for one in data)) == whole
    for cut in range(len(data) + 1):
        assert await read(data[:cut], data[cut:]) == whole
        assert await read(data[:cut], b"", data[cut:], b"") == whole


async def test_the_beginning_of_a_mark_that_does_not_follow_stays() -> None:
    for start in (b"\xef", b"\xef\xbb", b"\xef\xbb{}", b"{}"):
        assert (await read(start)).data == start
        assert (await read(*(bytes([one]) for one in start))).data == start


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (MARK, "empty"),
        (MARK + b" \n", "empty"),
        (MARK + MARK + b"{}", "two byte order marks"),
        (b" " + MARK + b"{}", "invalid character"),
        (b"{" + MARK + b"}", "object keys must be strings"),
        (b"{}" + MARK, "trailing characters"),
        *((text.encode(f"{name}{end}"), f"it is {name.upper()}; encode it as UTF-8")
          for name in ("utf-16", "utf-32") for end in ("", "-le", "-be")
          for text in ('{"a": "é"}', "{}", '{"a": "\\u4e2d"}')),
        (codecs.BOM_UTF16_BE + '{"a": 1}'.encode("utf-16-be"), "it is UTF-16"),
        (codecs.BOM_UTF32_BE + '{"a": 1}'.encode("utf-32-be"), "it is UTF-32"),
        (codecs.BOM_UTF16_LE, "it is UTF-16"),
        ('{"a": "é"}'.encode("latin-1"), "it is not UTF-8"),
    ],
)  # fmt: skip
async def test_other_marks_and_encodings_are_refused_and_named(body: bytes, reason: str) -> None:
    read_whole = await read(body)
    with pytest.raises(Refusal) as refused:
        parse_object(read_whole.data, JsonLimits())
    assert (refused.value.problem.status, refused.value.problem.code) == (400, "invalid_json")
    assert reason in refused.value.problem.message


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_marked_request_reaches_the_engine_without_the_mark(
    served: Served, is_stream: bool
) -> None:
    body = MARK + json.dumps(chat(stream=is_stream)).encode()
    answer = await served.http.post("/v1/chat/completions", content=body, headers=JSON)
    assert answer.status_code == 200
    assert served.engine.num_begun == 1


async def test_a_marked_body_of_the_admin_port_is_read(served: Served) -> None:
    path = "/admin/replicas"
    plain = await served.admin.post(path, content=b'{"nothing": 1}', headers=JSON)
    marked = await served.admin.post(path, content=MARK + b'{"nothing": 1}', headers=JSON)
    assert (marked.status_code, marked.text) == (plain.status_code, plain.text)
    foreign = await served.admin.post(path, content="{}".encode("utf-16"), headers=JSON)
    assert foreign.status_code == 400
    assert "UTF-16" in foreign.text
