"""The mock server's answers compared with recorded answers of vLLM 0.32 to the same requests.

`record_vllm` records them. The tests compare the status, the headers, and for every JSON value its
keys, their order and the types of its values. Object types, finish reasons, roles, error texts and
the separators between events must be identical.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from unit.mock_vllm.http.recorded_requests import (
    ANSWERS,
    MAX_MODEL_LEN,
    MODEL,
    REFUSALS,
    RecordedRequest,
)

DATA = Path(__file__).parent / "data"
ANSWERS_OF_VLLM = json.loads((DATA / "vllm-0.32.0.json").read_text())
SETTINGS = MockVllmSettings(
    model=MODEL, max_model_len=MAX_MODEL_LEN, tpot_ms=0, speculates=True, eos_every_tokens=0
)
_LITERAL = {"object", "finish_reason", "role", "owned_by", "type", "param", "code", "version"}
_EQUAL_HEADERS = ("content-type", "server", "transfer-encoding", "allow", "vary")


async def _send(request: RecordedRequest) -> httpx.Response:
    async with (
        MockVllm(SETTINGS) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        content = request.raw if request.body is None else json.dumps(request.body).encode()
        headers = {"content-type": request.content_type} if content is not None else {}
        return await http.request(request.method, request.path, content=content, headers=headers)


def _form(value: Any, name: str = "") -> Any:
    """Return a value's keys in order and the types of its values; a list by its first element."""
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


def _parse_events(text: str) -> list[tuple[str, Any]]:
    """Return (name, data) of each event of a stream whose events have names."""
    *events, rest = text.split("\n\n")
    assert rest == ""
    parts = [event.removeprefix("event: ").split("\ndata: ") for event in events]
    return [(name, json.loads(data)) for name, data in parts]


def _without_repetitions(events: list[tuple[str, Any]]) -> list[Any]:
    """Return names and forms; consecutive events with the same form once."""
    forms = [(name, _form(data)) for name, data in events]
    return [form for form, before in zip(forms, [None, *forms], strict=False) if form != before]


def _forms_by_choice(chunks: list[Any]) -> list[Any]:
    """Return the forms of a stream's chunks for each choice, without consecutive repetitions.

    How tokens are grouped into chunks, and which choice comes first, depends on the scheduler.
    """
    forms: dict[Any, list[Any]] = {}
    for chunk in chunks:
        choices = chunk["choices"]
        index = choices[0]["index"] if choices else -1
        row = forms.setdefault(index, [])
        if (form := _form(chunk)) not in row[-1:]:
            row.append(form)
    return sorted(forms.items())


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case.name)
async def test_an_answer_has_vllms_format(case: RecordedRequest) -> None:
    recorded, answer = ANSWERS_OF_VLLM[case.name], await _send(case)
    assert answer.status_code == recorded["status"]
    for name in _EQUAL_HEADERS:
        assert answer.headers.get(name) == recorded["headers"].get(name), name
    assert ("date" in answer.headers) == ("date" in recorded["headers"])
    if case.path == "/v1/responses" and case.body is not None and case.body.get("stream"):
        ours, theirs = _parse_events(answer.text), _parse_events(recorded["body"])
        assert _without_repetitions(ours) == _without_repetitions(theirs)
        assert [data["sequence_number"] for _, data in ours] == list(range(len(ours)))
    elif case.body is not None and case.body.get("stream"):
        ours, theirs = _parse_stream(answer.text), _parse_stream(recorded["body"])
        assert _forms_by_choice(ours) == _forms_by_choice(theirs)
    elif recorded["body"]:
        assert _form(answer.json()) == _form(json.loads(recorded["body"]))
        # no spaces, and no escapes of non-ASCII characters
        for text in (answer.text, recorded["body"]):
            assert text == json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
    else:
        assert answer.text == ""


_WORDS_DIFFER = {"no JSON", "detokenize a word"}
"""Only the position of the JSON error and pydantic's wording differ."""


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.name)
async def test_a_refusal_is_identical_to_vllms(case: RecordedRequest) -> None:
    recorded, answer = ANSWERS_OF_VLLM[case.name], await _send(case)
    assert answer.status_code == recorded["status"]
    for name in _EQUAL_HEADERS:
        assert answer.headers.get(name) == recorded["headers"].get(name), name
    if case.name not in _WORDS_DIFFER:
        assert answer.text == recorded["body"]
        return
    ours, theirs = (json.loads(text)["error"] for text in (answer.text, recorded["body"]))
    assert list(ours) == list(theirs)
    for name in ("type", "code"):
        assert ours[name] == theirs[name]
    assert ours["param"].split(".")[0] == theirs["param"].split(".")[0]


async def test_metrics_are_a_subset_of_vllms() -> None:
    """Every metric family of the mock has vLLM's help text, type, labels and order."""
    answer = await _send(RecordedRequest("metrics", "/metrics", method="GET"))
    head, *theirs = (DATA / "vllm-0.32.0-metrics.txt").read_text().splitlines()
    assert f"content-type: {answer.headers['content-type']}" == head
    ours = [_without_value(line) for line in answer.text.splitlines()]
    assert len(ours) > 40
    positions = [[_without_value(line) for line in theirs].index(line) for line in ours]
    assert positions == sorted(positions)


def _without_value(line: str) -> str:
    return line if line.startswith("#") else re.sub(r" \S+$", "", line)
