"""The request that continues a stream, and streams that cannot be continued."""

from __future__ import annotations

import asyncio
import json

import pytest

from paceline.gateway.continuation.resumable_stream import (
    CannotContinue,
    ResumableStream,
    Resumption,
)
from paceline.gateway.delivered import AnswerPart, DeliveredAnswer
from unit.gateway.continuation.streams import completion_chunk


async def ask_bytes(path: str, body: bytes) -> tuple[int, bytes]:
    """A replica whose tokens are bytes."""
    assert path == "/detokenize"
    text = bytes(json.loads(body)["tokens"]).decode("utf-8", errors="replace")
    return 200, json.dumps({"prompt": text}).encode()


def resume(**request: object) -> Resumption | AnswerPart:
    """Of a stream that broke off inside a character."""
    delivered = DeliveredAnswer()
    stream = ResumableStream({"model": "m", "prompt": "x", "max_tokens": 9, **request}, delivered)
    chunk = completion_chunk("a", list("aé".encode()[:2]), prompt_ids=[120])
    delivered.commit(stream.relay().feed(chunk))
    return asyncio.run(stream.resume(ask_bytes, 100, {}))


@pytest.mark.parametrize("shows_ids", [False, True])
def test_ids_inside_a_character_are_generated_again_when_greedy(shows_ids: bool) -> None:
    resumption = resume(temperature=0, return_token_ids=shows_ids)
    assert isinstance(resumption, Resumption)
    sent_body = json.loads(resumption.body)
    assert sent_body["prompt"] == [120, *b"a"]
    assert sent_body["max_tokens"] == 8


def test_sampled_ids_that_were_shown_cannot_be_generated_again() -> None:
    """They could differ, and the failure would count against the continuing replica."""
    assert isinstance(resume(temperature=1), Resumption)
    with pytest.raises(CannotContinue, match="another replica may sample others"):
        resume(temperature=1, return_token_ids=True)
