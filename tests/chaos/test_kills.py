"""Clients get correct answers while replicas are killed, hang, exit, or crash in a loop.

The tokens of every stream are those of an uninterrupted answer, and the replicas' request logs
confirm it.
"""

from __future__ import annotations

import asyncio
import json
import time

import aiohttp
import pytest

from chaos.expected_requests import expected_request, find_errors, num_failed_over, send_all
from chaos.fleet import MODEL, Fleet, running_fleet, wait_until
from chaos.transcript import Ending
from paceline.testing.mock_vllm import encode_chat, expected_answer

NUM_STREAMS = 16


@pytest.mark.parametrize(
    "after_tokens",
    [None, 0, 7, 59, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 2, 30))],
)
async def test_sigkill(fleet: Fleet, after_tokens: int | None) -> None:
    """None: before the head of the answer; 0: after the head, before the first token."""
    conditions = {"times": 1} if after_tokens is None else {"after_tokens": after_tokens}
    fleet.add_fault(0, kind="die", **conditions)
    requests = [expected_request(number) for number in range(NUM_STREAMS)]
    transcripts = await send_all(fleet, requests, name=f"sigkill-{after_tokens}")
    assert find_errors(fleet, requests, transcripts) == []
    assert await asyncio.to_thread(fleet.mock_vllms[0].wait) == -9
    assert num_failed_over(fleet, transcripts) > 0


async def test_sigkill_without_streaming(fleet: Fleet) -> None:
    fleet.add_fault(0, kind="die", after_tokens=20)
    requests = [expected_request(number, stream=False) for number in range(NUM_STREAMS)]
    transcripts = await send_all(fleet, requests, name="sigkill-whole")
    assert find_errors(fleet, requests, transcripts) == []
    assert num_failed_over(fleet, transcripts) > 0


async def read_response(client: aiohttp.ClientSession, url: str, number: int) -> list[str]:
    """What is wrong with one streamed response."""
    text = f"Tell me {number} 🚲 things."
    body = {"model": MODEL, "input": text, "max_output_tokens": 40, "stream": True}
    async with client.post(f"{url}/v1/responses", json={**body, "temperature": 0}) as response:
        answer = await response.text()
        if response.status != 200:
            return [f"status {response.status}: {answer}"]
    events = [json.loads(line[6:]) for line in answer.split("\n") if line.startswith("data: ")]
    prompt = encode_chat([("user", text)], add_generation_prompt=True)
    expected = expected_answer(prompt, 40).text
    received = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
    errors = []
    if received != expected:
        errors.append(f"text {received!r} instead of {expected!r}")
    if events[-1]["type"] != "response.completed":
        errors.append(f"the last event is {events[-1]}")
    if [event["sequence_number"] for event in events] != list(range(len(events))):
        errors.append("events are missing or doubled")
    return errors


async def test_responses_of_a_replica_that_dies_before_their_first_token_are_repeated(
    fleet: Fleet,
) -> None:
    """vLLM sends the first events of such a stream before it computes the prompt."""
    fleet.add_fault(0, kind="die", after_tokens=0)
    async with aiohttp.ClientSession() as client:
        reading = [read_response(client, fleet.gateway.url, n) for n in range(NUM_STREAMS)]
        errors = await asyncio.gather(*reading)
    assert errors == [[]] * NUM_STREAMS
    assert await asyncio.to_thread(fleet.mock_vllms[0].wait) == -9


@pytest.mark.parametrize("exit_code", [0, 1])
async def test_exit(fleet: Fleet, exit_code: int) -> None:
    fleet.add_fault(0, kind="die", exit_code=exit_code, after_tokens=5)
    requests = [expected_request(number) for number in range(NUM_STREAMS)]
    transcripts = await send_all(fleet, requests, name=f"exit-{exit_code}")
    assert find_errors(fleet, requests, transcripts) == []
    assert await asyncio.to_thread(fleet.mock_vllms[0].wait) == exit_code


@pytest.mark.parametrize("has_started", [False, True])
async def test_sigstop(fleet: Fleet, has_started: bool) -> None:
    """The replica stops with its port open, before its first byte or in the middle of streams."""
    name = f"sigstop-{has_started}"
    # Long enough that the streams of a busy machine are still in the middle
    requests = [expected_request(number, max_tokens=200) for number in range(NUM_STREAMS)]
    if not has_started:
        fleet.mock_vllms[0].stop()
    sending = asyncio.create_task(send_all(fleet, requests, name=name))
    if has_started:
        await asyncio.to_thread(wait_until, lambda: fleet.num_started(name, replica=0) > 0)
        fleet.mock_vllms[0].stop()
    transcripts = await sending
    # Before it resumes: then it may complete its answers, which nobody reads any more.
    errors = find_errors(fleet, requests, transcripts)
    fleet.mock_vllms[0].resume()
    assert errors == []
    assert max(transcript.end_s - transcript.start_s for transcript in transcripts) < 60


async def test_sigstop_without_streaming(fleet: Fleet) -> None:
    """Whole answers are silent anyway, and a stopped replica shows no counters: its failed health
    checks decide."""
    fleet.mock_vllms[0].stop()
    requests = [expected_request(number, stream=False) for number in range(NUM_STREAMS)]
    transcripts = await send_all(fleet, requests, name="sigstop-whole")
    errors = find_errors(fleet, requests, transcripts)
    fleet.mock_vllms[0].resume()
    assert errors == []
    assert max(transcript.end_s - transcript.start_s for transcript in transcripts) < 60


async def test_an_engine_hangs_while_its_server_is_healthy(fleet: Fleet) -> None:
    """Its /health still answers, so the gateway can detect the hang only by the stalled streams."""
    fleet.add_fault(0, kind="hang", after_tokens=10)
    requests = [expected_request(number) for number in range(NUM_STREAMS)]
    transcripts = await send_all(fleet, requests, name="hang")
    assert find_errors(fleet, requests, transcripts) == []
    assert num_failed_over(fleet, transcripts) > 0


async def test_crash_loop(fleet: Fleet) -> None:
    """A replica dies each time it begins to serve, during four seconds or more of requests."""
    mock_vllm = fleet.mock_vllms[0]
    is_over = asyncio.Event()
    num_deaths = 0

    async def restart_whenever_dead() -> None:
        nonlocal num_deaths
        while not is_over.is_set():
            if mock_vllm.returncode is not None:
                num_deaths += 1
                await asyncio.to_thread(mock_vllm.start)
                fleet.add_fault(0, kind="die", after_tokens=3)
            # sleep: the pause between two looks decides nothing
            await asyncio.sleep(0.05)

    fleet.add_fault(0, kind="die", after_tokens=3)
    restarting = asyncio.create_task(restart_whenever_dead())
    requests, transcripts, start_s, round_number = [], [], time.monotonic(), 0
    while (elapsed_s := time.monotonic() - start_s) < 4 or (
        elapsed_s < 60 and (num_deaths < 2 or round_number < 12)
    ):
        batch = [expected_request(number) for number in range(8)]
        transcripts += await send_all(fleet, batch, name=f"loop-{round_number}")
        requests += batch
        round_number += 1
    is_over.set()
    await restarting
    assert find_errors(fleet, requests, transcripts) == []
    assert num_deaths >= 2
    num_retried = num_failed_over(fleet, transcripts)
    assert num_retried < len(transcripts) / 2, "the breaker does not keep requests away"


@pytest.mark.parametrize("after_tokens", [None, 20])
async def test_all_replicas_die_and_one_returns(after_tokens: int | None) -> None:
    """It returns only after the gateway has found both replicas down. A request that moves from one
    to the other may lose both, which by default is the most that a request may end."""
    with running_fleet(
        2, "--tpot-ms", "4", config={"failures": {"max_replica_deaths": 3}}
    ) as fleet:
        await all_replicas_die_and_one_returns(fleet, after_tokens)


async def all_replicas_die_and_one_returns(fleet: Fleet, after_tokens: int | None) -> None:
    conditions = {"times": 1} if after_tokens is None else {"after_tokens": after_tokens}
    for replica in (0, 1):
        fleet.add_fault(replica, kind="die", **conditions)
    requests = [expected_request(number) for number in range(NUM_STREAMS)]
    sending = asyncio.create_task(send_all(fleet, requests, name=f"all-dead-{after_tokens}"))
    await asyncio.to_thread(
        wait_until,
        lambda: (
            all(mock_vllm.returncode is not None for mock_vllm in fleet.mock_vllms)
            and all(replica["state"] != "ready" for replica in fleet.gateway.replicas())
        ),
    )
    await asyncio.to_thread(fleet.mock_vllms[1].start)
    assert find_errors(fleet, requests, await sending) == []


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("after_tokens", [None, 0, 3, 20])
async def test_a_request_that_ends_engines_ends_two_however_many_tokens_came_between(
    after_tokens: int | None, is_stream: bool
) -> None:
    """Its answer comes when the second attempt has ended, so a third would have been recorded."""
    conditions = {"times": 1} if after_tokens is None else {"after_tokens": after_tokens}
    with running_fleet(4, "--tpot-ms", "4") as fleet:
        for replica in range(4):
            fleet.add_fault(replica, kind="die", **conditions)
        request = expected_request(0, max_tokens=200, stream=is_stream)
        (transcript,) = await send_all(fleet, [request], name="poison")
        if is_stream and after_tokens:
            assert transcript.ending is Ending.ERROR_EVENT
        else:
            assert transcript.status == 503
        await asyncio.to_thread(wait_until, lambda: num_dead(fleet) >= 2)
        assert num_dead(fleet) == 2
        assert len(fleet.records_of(transcript.request_id)) == 2


def num_dead(fleet: Fleet) -> int:
    """Count the replicas whose process has ended."""
    return sum(mock_vllm.returncode is not None for mock_vllm in fleet.mock_vllms)


@pytest.mark.parametrize(("tokens_apart", "is_continued"), [(20, True), (9, False)])
async def test_streams_whose_connections_are_cut_while_the_replicas_live(
    fleet: Fleet, tokens_apart: int, is_continued: bool
) -> None:
    """No replica ends, so `max_continuations` is the limit: 12 allow 200 tokens by 20, not by 9."""
    for replica in (0, 1):
        fleet.add_fault(replica, kind="reset", after_tokens=tokens_apart)
    request, num_before = expected_request(2, max_tokens=200), len(fleet.records())
    transcripts = await send_all(fleet, [request], name=f"broken-{tokens_apart}")
    num_attempts = len(fleet.records()) - num_before
    if is_continued:
        assert find_errors(fleet, [request], transcripts) == []
        assert num_attempts > 6
    else:
        assert transcripts[0].ending is Ending.ERROR_EVENT
        assert num_attempts == 1 + 12


async def test_refused_connections(fleet: Fleet) -> None:
    """Last in this file: while it refuses connections, the fault cannot be cleared over HTTP."""
    fleet.add_fault(0, kind="refuse", duration_s=1)
    requests = [expected_request(number) for number in range(NUM_STREAMS)]
    transcripts = await send_all(fleet, requests, name="refuse")
    assert find_errors(fleet, requests, transcripts) == []
