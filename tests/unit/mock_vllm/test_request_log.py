"""The request log, in memory and in a file that survives SIGKILL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from polling import until

from paceline.testing.mock_vllm import (
    MockVllm,
    MockVllmSettings,
    encode_text,
    expected_answer,
    hash_of_ids,
    read_request_log,
    spawn_mock_vllm,
)
from paceline.testing.mock_vllm import request_log as request_log_module
from paceline.testing.mock_vllm.request_log import RequestLog

BODY = {"model": "m", "prompt": "abc", "max_tokens": 12, "temperature": 0}


async def test_a_finished_request_is_recorded_with_its_tokens() -> None:
    async with (
        MockVllm(MockVllmSettings(model="m", tpot_ms=1)) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        for stream in (True, False):
            body = BODY | {"stream": stream}
            await http.post("/v1/completions", json=body, headers={"x-request-id": "r1"})
        log = (await http.get("/mock_vllm/requests")).json()
    assert (log["num_begun"], log["num_open"], log["num_forgotten"]) == (2, 0, 0)
    ids = expected_answer(encode_text("abc"), 12).ids
    for record in log["records"]:
        assert record["request_id"] == "r1"
        assert record["ending"] == "finished"
        assert record["prompt_hash"] == hash_of_ids(encode_text("abc"))
        assert record["answer_hash"] == hash_of_ids(ids)
        assert (record["num_prompt_tokens"], record["num_tokens"]) == (3, 12)
        assert record["begun_s"] <= record["first_token_s"] <= record["ended_s"]


async def test_the_record_has_the_seed_that_the_server_drew() -> None:
    async with (
        MockVllm(MockVllmSettings(model="m", tpot_ms=1, seed=3)) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        answer = await http.post("/v1/completions", json=BODY | {"temperature": 1})
        (record,) = (await http.get("/mock_vllm/requests")).json()["records"]
    expected = expected_answer(encode_text("abc"), 12, seed=record["seed"])
    assert answer.json()["choices"][0]["text"] == expected.text


async def _records(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    return list((await http.get("/mock_vllm/requests")).json()["records"])


async def _until_begun(http: httpx.AsyncClient) -> None:
    """Return when a request runs."""
    running = 'vllm:num_requests_running{engine="0",model_name="m"} 1.0'

    async def is_running() -> bool:
        return running in (await http.get("/metrics")).text

    await until(is_running)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("is_queued", [True, False])
async def test_a_client_that_disconnects_aborts_its_request(stream: bool, is_queued: bool) -> None:
    settings = MockVllmSettings(model="m", tpot_ms=20, max_num_seqs=1, eos_every_tokens=0)
    async with (
        MockVllm(settings) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        first = None
        if is_queued:
            body = BODY | {"max_tokens": 4000}
            first = asyncio.create_task(http.post("/v1/completions", json=body, timeout=60))
            await _until_begun(http)
        with pytest.raises(httpx.ReadTimeout):
            async with http.stream(
                "POST",
                "/v1/completions",
                json=BODY | {"max_tokens": 4000, "stream": stream},
                timeout=httpx.Timeout(60, read=0.2 if is_queued or not stream else 0.005),
            ) as answer:
                await answer.aread()
        records: list[dict[str, Any]] = []
        async with asyncio.timeout(60):
            while not any(record["ending"] for record in records):
                await asyncio.sleep(0.01)  # sleep: the pause between two looks decides nothing
                records = await _records(http)
        metrics = (await http.get("/metrics")).text
        if first is not None:
            first.cancel()
    (record,) = [record for record in records if record["ending"]]
    assert record["ending"] == "aborted"
    assert record["num_tokens"] < 4000  # which would take 80 s
    assert 'vllm:num_requests_waiting{engine="0",model_name="m"} 0.0' in metrics
    assert f'vllm:num_requests_running{{engine="0",model_name="m"}} {float(is_queued)}' in metrics


def test_the_log_file_survives_sigkill(tmp_path: Path) -> None:
    """A restarted server appends to the same file."""
    path = tmp_path / "requests.jsonl"
    flags = ("--model", "m", "--tpot-ms", "5", "--request-log", str(path))
    with spawn_mock_vllm(*flags) as server:
        url = f"{server.url}/v1/completions"
        httpx.post(url, json=BODY, headers={"x-request-id": "whole"}, timeout=60)
        body = BODY | {"max_tokens": 4000, "stream": True}
        headers = {"x-request-id": "cut"}
        with httpx.stream("POST", url, json=body, headers=headers, timeout=60) as answer:
            parts = answer.iter_raw()
            assert next(parts).startswith(b"data: ")
            server.kill()
        server.start()
        httpx.post(url, json=BODY, headers={"x-request-id": "again"}, timeout=60)
    records = list(read_request_log(path))
    assert [(r.request_id, r.number, r.ending) for r in records] == [
        ("whole", 1, "finished"),
        ("cut", 2, None),
        ("again", 1, "finished"),
    ]
    assert records[1].first_token_s is not None
    assert len({record.pid for record in records}) == 2


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    """A reader of a running server's file may reach its end in the middle of a line."""
    path = tmp_path / "requests.jsonl"
    log = RequestLog(path)
    record = log.begin(request_id="r", route="", prompts=[[1]], max_tokens=1, seed=None)
    log.end(record, "finished")
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    (found,) = read_request_log(path)
    assert (found.request_id, found.ending) == ("r", None)
    path.write_bytes(whole)
    (found,) = read_request_log(path)
    assert found.ending == "finished"


def test_the_number_of_records_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log_module, "MAX_RECORDS", 10)
    log = RequestLog(None)
    for _ in range(25):
        record = log.begin(request_id="", route="", prompts=[[1]], max_tokens=1, seed=None)
        log.end(record, "finished")
        log.end(record, "aborted")
    rendered = log.render()
    assert b'"num_begun":25,"num_open":0,"num_forgotten":15' in rendered
    assert b"aborted" not in rendered
