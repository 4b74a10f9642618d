"""Seeds, `n`, stop strings and structured output: right servers pass, wrong ones are named."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from paceline.testing.mock_vllm.model.sampling_defect import DefectKind, SamplingDefect
from paceline.workbench.audit.checks.features import (
    FEATURES,
    FeatureResults,
    check_feature,
    fits_schema,
    stop_string,
    twins,
)
from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.transport import ServerError
from paceline.workbench.audit.values import Answer
from unit.audit.simulated import SimulatedTransport


async def checked(transport: SimulatedTransport) -> dict[str, str]:
    server = Server(transport, url="http://m")
    await server.probe()
    await server.probe_choices()
    await server.probe_parameters()
    results = FeatureResults()
    for name in FEATURES:
        await check_feature(server, name, "a prompt", results)
    return {one.name: one.status for one in results.found}


RIGHT = {"seeds": "right", "n": "right", "stop": "right", "structured output": "unknown"}


async def test_a_right_server_passes() -> None:
    """The mock server ignores response_format, which is no fault of speculation."""
    assert await checked(SimulatedTransport()) == RIGHT


async def test_equal_texts_from_different_seeds_are_wrong() -> None:
    found = await checked(SimulatedTransport(SamplingDefect(DefectKind.SEED_REUSE)))
    assert found == {**RIGHT, "seeds": "wrong"}


class Changed(SimulatedTransport):
    """A server whose choices are changed before they are sent."""

    def change(self, body: Mapping[str, Any], choice: dict[str, Any]) -> None:
        raise NotImplementedError

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        document = await super().post(path, body)
        for choice in document["choices"]:
            self.change(body, choice)
        return document


@pytest.mark.parametrize(
    ("status", "expected"), [(500, "failed"), (None, "failed"), (400, "unknown")]
)
async def test_an_error_of_the_server_is_told_apart_from_a_refusal(
    status: int | None, expected: str
) -> None:
    class Dying(SimulatedTransport):
        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if "response_format" in body:
                raise ServerError("it failed", status)
            return await super().post(path, body)

    found = await checked(Dying())
    assert found.pop("structured output") == expected
    assert found == {name: status for name, status in RIGHT.items() if name != "structured output"}


class LateStop(Changed):
    """The stop string is sent too."""

    def change(self, body: Mapping[str, Any], choice: dict[str, Any]) -> None:
        if "stop" in body:
            choice["text"] += body["stop"]


class EarlyStop(Changed):
    """The last character before the stop string is lost."""

    def change(self, body: Mapping[str, Any], choice: dict[str, Any]) -> None:
        if "stop" in body:
            choice["text"] = choice["text"][:-1]


@pytest.mark.parametrize("transport", [LateStop(), EarlyStop()])
async def test_a_stop_string_that_cuts_at_the_wrong_place_is_wrong(
    transport: SimulatedTransport,
) -> None:
    assert await checked(transport) == {**RIGHT, "stop": "wrong"}


class SomeJson(Changed):
    """Every second structured document is broken."""

    num_documents = 0

    def change(self, body: Mapping[str, Any], choice: dict[str, Any]) -> None:
        if "response_format" in body:
            self.num_documents += 1
            text = '{"ok": true, "level": "low"}'
            choice |= {"text": text[: -1 - self.num_documents % 2], "finish_reason": "stop"}
            if self.num_documents % 2 == 0:
                choice["text"] = text


async def test_some_broken_documents_are_wrong() -> None:
    assert await checked(SomeJson()) == {**RIGHT, "structured output": "wrong"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"ok": true, "level": "low"}', True),
        (' {"level": "high",\n "ok": false}', True),
        ('{"ok": 1, "level": "low"}', False),
        ('{"ok": true}', False),
        ('{"ok": true, "level": "low"', False),
        ("[]", False),
    ],
)
def test_documents_of_the_schema(text: str, expected: bool) -> None:
    assert fits_schema(text) is expected


def test_twins_need_a_text_that_is_not_likely_twice() -> None:
    """Three tokens of probability 1e-4 each, against three of 0.9."""
    rare = Answer((1, 2, 3), "", None, tuple({t: math.log(1e-4)} for t in (1, 2, 3)))
    common = Answer((1, 2, 3), "", None, tuple({t: math.log(0.9)} for t in (1, 2, 3)))
    other = Answer((1, 2, 4), "", None, rare.logprobs)
    assert twins([rare, other, rare]) == (0, 2)
    assert twins([common, common]) is None
    assert twins([rare, other]) is None


def test_a_stop_string_comes_from_the_middle() -> None:
    assert stop_string("abcdefgh") == "ef"
    assert stop_string("abc") is None
