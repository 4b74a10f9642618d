"""Content that is a list of strings reaches the engine as text parts, which every engine takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paceline.gateway.requests.routes import CHAT
from unit.gateway.conftest import Serve, chat


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (["a", ""], [_text("a"), _text("")]),
        ([_text("a"), "b"], [_text("a"), _text("b")]),
        ([], []),
        ("a", "a"),
        ([_text("a") | {"uuid": "1"}], [_text("a") | {"uuid": "1"}]),
    ],
)
@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
async def test_strings_in_content_are_sent_as_text_parts(
    serve: Serve, role: str, given: Any, sent: Any
) -> None:
    first = {"role": role, "name": "n", "content": given}
    second = {"role": "user", "content": "b"}
    async with serve() as served:
        answer = await served.http.post(CHAT.path, json=chat(messages=[first, second]))
        assert answer.status_code == 200, answer.text
        [body] = map(json.loads, served.engine.bodies)
    assert body["messages"] == [{**first, "content": sent}, second]
