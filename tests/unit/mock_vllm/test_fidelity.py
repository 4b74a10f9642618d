"""The stand-in's answers beside those that vLLM 0.32 gave to the same requests.

Recorded by `record_vllm`. Compared are status, headers, and of every JSON value its keys, their
order, and the kinds of its values; what must be equal is compared literally: objects' kinds,
reasons, roles, error texts, the marks between events.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.mock_vllm import MockVllm, MockVllmSettings
from unit.mock_vllm.shapes import ANSWERS, MAX_MODEL_LEN, MODEL, REFUSALS, Shape

DATA = Path(__file__).parent / "data"
RECORDED = json.loads((DATA / "vllm-0.32.0.json").read_text())
SETTINGS = MockVllmSettings(
    model=MODEL, max_model_len=MAX_MODEL_LEN, tpot_ms=0, speculates=True, eos_every_tokens=0
)
_LITERAL = {"object", "finish_reason", "role", "owned_by", "type", "param", "code", "version"}
_EQUAL_HEADERS = ("content-type", "server", "transfer-encoding", "allow", "vary")


async def _ask(shape: Shape) -> httpx.Response:
    async with MockVllm(SETTINGS) as server, httpx.AsyncClient(base_url=server.url) as http:
        content = shape.raw if shape.body is None else json.dumps(shape.body).encode()
        headers = {"content-type": shape.content_type} if content is not None else {}
        return await http.request(shape.method, shape.path, content=content, headers=headers)


def _form(value: Any, name: str = "") -> Any:
    """A value's keys, order and kinds; long lists by their first element."""
    if isinstance(value, dict):
        return [(key, _form(part, key)) for key, part in value.items()]
    if isinstance(value, list):
        return [_form(part, name) for part in value[:1]]
    if name in _LITERAL or isinstance(value, bool):
        return value
    return type(value).__name__


def _parse_stream(text: str) -> list[Any]:
    *events, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    assert all(event.startswith("data: {") for event in events)
    return [json.loads(event.removeprefix("data: ")) for event in events]


def _per_choice(chunks: list[Any]) -> list[Any]:
    """The forms of a stream's chunks, choice by choice, several alike in a row counted as one:
    how the tokens fall into chunks, and whose come first, is the scheduler's."""
    forms: dict[Any, list[Any]] = {}
    for chunk in chunks:
        choices = chunk["choices"]
        index = choices[0]["index"] if choices else -1
        row = forms.setdefault(index, [])
        if (form := _form(chunk)) not in row[-1:]:
            row.append(form)
    return sorted(forms.items())


@pytest.mark.parametrize("shape", ANSWERS, ids=lambda shape: shape.name)
async def test_an_answer_has_vllms_form(shape: Shape) -> None:
    recorded, answer = RECORDED[shape.name], await _ask(shape)
    assert answer.status_code == recorded["status"]
    for name in _EQUAL_HEADERS:
        assert answer.headers.get(name) == recorded["headers"].get(name), name
    assert ("date" in answer.headers) == ("date" in recorded["headers"])
    if shape.body is not None and shape.body.get("stream"):
        ours, theirs = _parse_stream(answer.text), _parse_stream(recorded["body"])
        assert _per_choice(ours) == _per_choice(theirs)
    elif recorded["body"]:
        assert _form(answer.json()) == _form(json.loads(recorded["body"]))
        # without spaces, and characters as they are
        for text in (answer.text, recorded["body"]):
            assert text == json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
    else:
        assert answer.text == ""


_WORDS_DIFFER = {"no JSON", "detokenize a word"}
"""Only the place of the error in the text, and pydantic's words, differ."""


@pytest.mark.parametrize("shape", REFUSALS, ids=lambda shape: shape.name)
async def test_a_refusal_is_vllms_to_the_letter(shape: Shape) -> None:
    recorded, answer = RECORDED[shape.name], await _ask(shape)
    assert answer.status_code == recorded["status"]
    for name in _EQUAL_HEADERS:
        assert answer.headers.get(name) == recorded["headers"].get(name), name
    if shape.name not in _WORDS_DIFFER:
        assert answer.text == recorded["body"]
        return
    ours, theirs = (json.loads(text)["error"] for text in (answer.text, recorded["body"]))
    assert list(ours) == list(theirs)
    for name in ("type", "code"):
        assert ours[name] == theirs[name]
    assert ours["param"].split(".")[0] == theirs["param"].split(".")[0]


async def test_metrics_are_a_part_of_vllms_text() -> None:
    """Every family that we expose is there with the same help, kind, labels and order."""
    answer = await _ask(Shape("metrics", "/metrics", method="GET"))
    head, *theirs = (DATA / "vllm-0.32.0-metrics.txt").read_text().splitlines()
    assert f"content-type: {answer.headers['content-type']}" == head
    ours = [_without_value(line) for line in answer.text.splitlines()]
    assert len(ours) > 40
    places = [[_without_value(line) for line in theirs].index(line) for line in ours]
    assert places == sorted(places)


def _without_value(line: str) -> str:
    return line if line.startswith("#") else re.sub(r" \S+$", "", line)
