"""Faults of the whole server: hang, freeze, refuse, slow and die, and faults added later."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from polling import until

from paceline.testing.mock_vllm import (
    Fault,
    FaultKind,
    MockVllm,
    encode_text,
    expected_answer,
    spawn_mock_vllm,
)
from unit.mock_vllm.faults.faulty_server import BODY, SETTINGS, read_stream, serving, token_ids


async def test_health_is_answered_during_a_hang_and_not_during_a_freeze() -> None:
    async with serving() as http:
        await http.post("/mock_vllm/faults", json=[{"kind": "hang"}])
        assert await read_stream(http, silent_after_tokens=0) == ("", "silent")
        assert (await http.get("/health")).status_code == 200
        await http.delete("/mock_vllm/faults")
        assert (await read_stream(http))[1] == "done"
        await http.post("/mock_vllm/faults", json=[{"kind": "freeze"}])
        with pytest.raises(httpx.ReadTimeout):
            await http.get("/health", timeout=0.1)  # limit: no answer may come, whatever the time


async def test_a_stream_continues_completely_after_a_hang() -> None:
    fault = Fault(FaultKind.HANG, after_tokens=4, duration_s=0.2, times=1)
    async with serving(fault) as http:
        text, ended = await read_stream(http)
        assert (ended, len(token_ids(text))) == ("done", 20)


async def test_the_request_that_triggers_a_freeze_is_held_too_and_the_next_one_is_not() -> None:
    fault = Fault(FaultKind.FREEZE, route="health", request=1, duration_s=0.2)
    async with serving(fault) as http:
        start_s = asyncio.get_running_loop().time()
        assert (await http.get("/health")).status_code == 200
        assert asyncio.get_running_loop().time() - start_s > 0.19
        assert (await http.get("/health")).status_code == 200


async def test_connections_are_refused_and_later_accepted_on_the_same_port() -> None:
    async with (
        MockVllm(SETTINGS) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        await http.post("/mock_vllm/faults", json=[{"kind": "refuse"}])
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as other:
            with pytest.raises(httpx.ConnectError):
                await other.get("/health")
            assert (await http.get("/health")).status_code == 200  # an open connection
            await http.delete("/mock_vllm/faults")
            assert await _status_when_accepted(other) == 200
            await http.post("/mock_vllm/faults", json=[{"kind": "refuse", "duration_s": 0.1}])
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as third:
            assert await _status_when_accepted(third) == 200


async def _status_when_accepted(http: httpx.AsyncClient) -> int:
    async def status() -> int | None:
        with contextlib.suppress(httpx.ConnectError):
            return (await http.get("/health")).status_code
        return None

    return await until(status) or 0


async def test_the_slow_fault_multiplies_all_times() -> None:
    async with serving(Fault(FaultKind.SLOW, factor=20)) as http:
        start_s = asyncio.get_running_loop().time()
        await http.post("/v1/completions", json=BODY)
        assert asyncio.get_running_loop().time() - start_s > 19 * 0.02


async def test_die_in_this_process_closes_the_port_and_all_connections() -> None:
    async with serving(Fault(FaultKind.DIE, after_tokens=5)) as http:
        text, ended = await read_stream(http)
        assert ended == "broken"
        assert len(token_ids(text)) <= 5
        with pytest.raises(httpx.ConnectError):
            await http.get("/health")


@pytest.mark.parametrize(("exit_code", "expected"), [(None, -signal.SIGKILL), (0, 0), (7, 7)])
def test_a_process_dies_after_exactly_the_given_number_of_tokens(
    tmp_path: Path, exit_code: int | None, expected: int
) -> None:
    script = tmp_path / "faults.yaml"
    script.write_text(f"- {{kind: die, after_tokens: 9, exit_code: {json.dumps(exit_code)}}}\n")
    with spawn_mock_vllm("--model", "m", "--tpot-ms", "2", "--faults", str(script)) as server:
        with httpx.stream(
            "POST", f"{server.url}/v1/completions", json=BODY | {"stream": True}, timeout=60
        ) as a:
            text = "".join(_parts_until_it_breaks(a))
        assert server.wait() == expected
    assert token_ids(text) == list(expected_answer(encode_text("abc"), 9).ids)


def _parts_until_it_breaks(answer: httpx.Response) -> Iterator[str]:
    with contextlib.suppress(httpx.HTTPError):
        yield from answer.iter_text()
        raise AssertionError("The stream ended normally.")


def test_a_fault_is_added_to_a_running_process() -> None:
    with spawn_mock_vllm() as server:
        answer = httpx.post(f"{server.url}/mock_vllm/faults", json=[{"kind": "die"}], timeout=60)
        assert answer.json() == {"num_set": 1}
        assert server.wait() == -signal.SIGKILL
        assert not os.path.exists(f"/proc/{server.pid}/fd/0")


async def test_a_fault_is_added_after_its_delay() -> None:
    start_s = asyncio.get_running_loop().time()
    async with serving(Fault(FaultKind.STATUS, after_s=0.3)) as http:

        async def is_added() -> bool:
            return bool((await http.get("/mock_vllm/faults")).json()["faults"])

        await until(is_added)
        assert asyncio.get_running_loop().time() - start_s >= 0.3
        assert (await http.post("/v1/completions", json=BODY)).status_code == 503
