"""Faults: which request they strike, and what its peer then sees."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.mock_vllm import (
    Fault,
    FaultKind,
    MockVllm,
    MockVllmSettings,
    encode_text,
    expected_answer,
    load_faults,
    read_faults,
    spawn_mock_vllm,
)
from paceline.mock_vllm.faults.fault_book import FaultBook

SETTINGS = MockVllmSettings(model="m", tpot_ms=1, prefill_tokens_per_s=1e6, eos_every_tokens=0)
BODY = {"model": "m", "prompt": "abc", "max_tokens": 20, "temperature": 0, "return_token_ids": True}


@asynccontextmanager
async def serving(*faults: Fault) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        MockVllm(SETTINGS, faults=faults) as server,
        httpx.AsyncClient(base_url=server.url, timeout=5) as http,
    ):
        yield http


async def _read(http: httpx.AsyncClient, **body: Any) -> tuple[str, str]:
    """What came of a stream, and how it ended: done, end, broken or silent."""
    text = ""
    request = {**BODY, "stream": True, **body}
    try:
        async with (
            asyncio.timeout(0.5),
            http.stream("POST", "/v1/completions", json=request) as answer,
        ):
            async for part in answer.aiter_text():
                text += part
    except TimeoutError:
        return text, "silent"
    except httpx.HTTPError:
        return text, "broken"
    return text, "done" if text.endswith("data: [DONE]\n\n") else "end"


def _ids(text: str) -> list[int]:
    ids: list[int] = []
    for event in text.split("\n\n"):
        try:
            for choice in json.loads(event.removeprefix("data: "))["choices"]:
                ids += choice["token_ids"]
        except (ValueError, KeyError):
            pass
    return ids


async def _ledger(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    return list((await http.get("/mock_vllm/ledger")).json()["records"])


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("half_close", "broken"),
        ("tear", "broken"),
        ("no_done", "end"),
        ("bad_chunking", "broken"),
        ("stall", "silent"),
        ("hang", "silent"),
        ("freeze", "silent"),
    ],
)
@pytest.mark.parametrize("num_tokens", [0, 1, 7, 20])
async def test_a_stream_breaks_after_exactly_so_many_tokens(
    kind: str, ending: str, num_tokens: int
) -> None:
    """Also at the last token: then its end never comes."""
    async with serving(Fault(FaultKind(kind), after_tokens=num_tokens)) as http:
        text, ended = await _read(http)
        assert ended == ending
        assert _ids(text) == list(expected_answer(encode_text("abc"), 20).ids[:num_tokens])
        assert "[DONE]" not in text


@pytest.mark.parametrize("num_tokens", [0, 7])
async def test_a_reset_is_a_reset(num_tokens: int) -> None:
    """What was on its way may be lost with it, by TCP's own rules; nothing comes after it."""
    async with serving(Fault(FaultKind.RESET, after_tokens=num_tokens)) as http:
        with pytest.raises(httpx.ReadError):
            await http.post("/v1/completions", json={**BODY, "stream": True})
        (record,) = await _ledger(http)
        assert (record["ending"], record["num_tokens"]) == ("fault:reset", num_tokens)


@pytest.mark.parametrize("kind", ["long_line", "bad_json"])
async def test_some_rubbish_comes_in_between_and_the_stream_goes_on(kind: str) -> None:
    async with serving(Fault(FaultKind(kind), after_tokens=5, size_bytes=1_000_000)) as http:
        text, ended = await _read(http)
        assert ended == "done"
        assert _ids(text) == list(expected_answer(encode_text("abc"), 20).ids)
        rubbish = text.split("\n\n")[5]
        with pytest.raises(ValueError, match=r"Expecting|delimiter|value"):
            json.loads(rubbish.removeprefix("data: "))
        assert (len(rubbish) + 2 == 1_000_000) == (kind == "long_line")


async def test_an_error_event_ends_the_stream_as_vllm_does() -> None:
    async with serving(Fault(FaultKind.ERROR_EVENT, after_tokens=3)) as http:
        text, ended = await _read(http)
        *_, error, done, _ = text.split("\n\n")
        assert json.loads(error.removeprefix("data: "))["error"]["code"] == 500
        assert (done, ended, len(_ids(text))) == ("data: [DONE]", "done", 3)


async def test_a_status_is_an_error_of_vllms_shape() -> None:
    async with serving(Fault(FaultKind.STATUS, status=429, times=1)) as http:
        refused = await http.post("/v1/completions", json=BODY)
        assert refused.status_code == refused.json()["error"]["code"] == 429
        assert (await http.post("/v1/completions", json=BODY)).status_code == 200


async def test_only_the_named_requests_are_struck() -> None:
    async def statuses(fault: Fault) -> list[int]:
        async with serving(fault) as http:
            return [
                (await http.post("/v1/completions", json=BODY | {"max_tokens": 1})).status_code
                for _ in range(6)
            ]

    def fault(**conditions: Any) -> Fault:
        return Fault(FaultKind.STATUS, status=500, **conditions)

    assert await statuses(fault(request=3)) == [200, 200, 500, 200, 200, 200]
    assert await statuses(fault(every=2)) == [200, 500] * 3
    assert await statuses(fault(times=2)) == [500, 500, 200, 200, 200, 200]
    assert await statuses(fault(every=2, times=1)) == [200, 500, 200, 200, 200, 200]


def test_a_rate_strikes_that_fraction_and_the_same_requests_again() -> None:
    def struck(seed: int) -> list[bool]:
        book = FaultBook(seed)
        book.add(Fault(FaultKind.STATUS, rate=0.3))
        return [bool(book.matching("generate")) for _ in range(10_000)]

    assert sum(struck(1)) == pytest.approx(3000, abs=200)
    assert struck(1) == struck(1)
    assert struck(1) != struck(2)


def test_a_short_answer_does_not_use_up_a_fault_that_it_never_met() -> None:
    book = FaultBook(0)
    entry = book.add(Fault(FaultKind.RESET, after_tokens=100, times=1))
    assert book.matching("generate") == [entry]
    assert book.matching("generate") == [entry]
    assert book.strike(entry)
    assert not book.strike(entry)


async def test_health_answers_during_a_hang_and_not_during_a_freeze() -> None:
    async with serving() as http:
        await http.post("/mock_vllm/faults", json=[{"kind": "hang"}])
        assert await _read(http) == ("", "silent")
        assert (await http.get("/health")).status_code == 200
        await http.delete("/mock_vllm/faults")
        assert (await _read(http))[1] == "done"
        await http.post("/mock_vllm/faults", json=[{"kind": "freeze", "duration_s": 0.3}])
        with pytest.raises(httpx.ReadTimeout):
            await http.get("/health", timeout=0.1)
        assert (await http.get("/health", timeout=5)).status_code == 200


async def test_a_stream_goes_on_after_a_pause_as_if_there_had_been_none() -> None:
    fault = Fault(FaultKind.HANG, after_tokens=4, duration_s=0.2, times=1)
    async with serving(fault) as http:
        text, ended = await _read(http)
        assert (ended, len(_ids(text))) == ("done", 20)


async def test_a_stalled_stream_lets_the_others_go_on() -> None:
    async with serving(Fault(FaultKind.STALL, after_tokens=4, request=1)) as http:
        stalled, other = await asyncio.gather(_read(http), _read(http))
        assert {stalled[1], other[1]} == {"silent", "done"}


async def test_health_alone_can_fail() -> None:
    async with serving(Fault(FaultKind.STATUS, route="health", status=503)) as http:
        assert (await http.get("/health")).status_code == 503
        assert (await http.post("/v1/completions", json=BODY)).status_code == 200


async def test_the_request_that_brings_a_freeze_waits_with_the_others() -> None:
    fault = Fault(FaultKind.FREEZE, route="health", request=1, duration_s=0.2)
    async with serving(fault) as http:
        begun_s = asyncio.get_running_loop().time()
        assert (await http.get("/health")).status_code == 200
        assert asyncio.get_running_loop().time() - begun_s > 0.19


async def test_connections_are_refused_for_a_while_on_the_same_port() -> None:
    async with MockVllm(SETTINGS) as server, httpx.AsyncClient(base_url=server.url) as http:
        await http.post("/mock_vllm/faults", json=[{"kind": "refuse", "duration_s": 0.3}])
        async with httpx.AsyncClient(base_url=server.url) as other:
            with pytest.raises(httpx.ConnectError):
                await other.get("/health")
            assert (await http.get("/health")).status_code == 200  # an open connection
            await asyncio.sleep(0.5)
            assert (await other.get("/health")).status_code == 200


async def test_everything_is_slower() -> None:
    async with serving(Fault(FaultKind.SLOW, factor=20)) as http:
        begun_s = asyncio.get_running_loop().time()
        await http.post("/v1/completions", json=BODY)
        assert asyncio.get_running_loop().time() - begun_s > 19 * 0.02


async def test_whole_answers_break_too() -> None:
    for kind in ("tear", "reset", "half_close", "bad_chunking"):
        async with serving(Fault(FaultKind(kind))) as http:
            with pytest.raises(httpx.HTTPError):
                await http.post("/v1/completions", json=BODY, timeout=0.5)
    for kind in ("bad_json", "long_line"):
        async with serving(Fault(FaultKind(kind), size_bytes=100)) as http:
            answer = await http.post("/v1/completions", json=BODY)
            with pytest.raises(ValueError, match="Unterminated"):
                answer.json()


async def test_a_dead_server_in_this_process_only_plays_dead() -> None:
    async with serving(Fault(FaultKind.DIE, after_tokens=5)) as http:
        text, ended = await _read(http)
        assert ended == "broken"
        assert len(_ids(text)) <= 5
        with pytest.raises(httpx.ConnectError):
            await http.get("/health")


def _parts_until_it_breaks(answer: httpx.Response) -> Iterator[str]:
    with contextlib.suppress(httpx.HTTPError):
        yield from answer.iter_text()
        raise AssertionError("The stream ended in good order.")


@pytest.mark.parametrize(("exit_code", "expected"), [(None, -signal.SIGKILL), (0, 0), (7, 7)])
def test_a_process_dies_after_exactly_so_many_tokens(
    tmp_path: Path, exit_code: int | None, expected: int
) -> None:
    script = tmp_path / "faults.yaml"
    script.write_text(f"- {{kind: die, after_tokens: 9, exit_code: {json.dumps(exit_code)}}}\n")
    with spawn_mock_vllm("--model", "m", "--tpot-ms", "2", "--faults", str(script)) as server:
        with httpx.stream(
            "POST", f"{server.url}/v1/completions", json=BODY | {"stream": True}
        ) as a:
            text = "".join(_parts_until_it_breaks(a))
        assert server.wait() == expected
    assert _ids(text) == list(expected_answer(encode_text("abc"), 9).ids)


def test_a_fault_of_a_running_process_is_set_from_outside() -> None:
    with spawn_mock_vllm() as server:
        assert httpx.post(f"{server.url}/mock_vllm/faults", json=[{"kind": "die"}]).json() == {
            "num_set": 1
        }
        assert server.wait() == -signal.SIGKILL
        assert not os.path.exists(f"/proc/{server.pid}/fd/0")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": "sneeze"}, "Fault 1: kind must be one of die, hang"),
        ({"kind": "die", "afer_tokens": 1}, "Fault 1 has unknown fields: afer_tokens."),
        ({"kind": "die", "after_tokens": "x"}, "Fault 1: after_tokens has a wrong type: 'x'."),
        ({"kind": "status", "after_tokens": 3}, "status comes instead of an answer"),
        ({"kind": "reset", "duration_s": 3}, "reset does not last"),
        ({"kind": "reset", "rate": 2}, "rate must be in"),
        ({"kind": "reset", "route": "nowhere"}, "route must be one of"),
        ({"kind": "reset", "request": 0}, "request must be at least 1"),
        ("reset", "Fault 1 is no object"),
    ],
)
def test_a_wrong_script_is_refused_and_says_why(entry: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_faults([entry])


def test_scripts_are_yaml_or_json(tmp_path: Path) -> None:
    path = tmp_path / "faults"
    for text in ("faults:\n- kind: die\n  request: 3\n", '{"faults":[{"kind":"die","request":3}]}'):
        path.write_text(text)
        assert load_faults(path) == [Fault(FaultKind.DIE, request=3)]
    path.write_text("just words")
    with pytest.raises(ValueError, match="A fault script is a list"):
        load_faults(path)


async def test_a_fault_waits_for_its_time() -> None:
    async with serving(Fault(FaultKind.STATUS, after_s=0.2)) as http:
        assert (await http.post("/v1/completions", json=BODY)).status_code == 200
        await asyncio.sleep(0.3)
        assert (await http.post("/v1/completions", json=BODY)).status_code == 503
