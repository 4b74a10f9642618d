"""`transformers serve` behind the gateway, as a server of the dialect `openai`.

Its streams end after the `finish_reason`, without `[DONE]`. Its list of models is that of Hugging
Face's cache, without the model that it serves, so that the entry must name it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from chaos.gateway_process import HTTP
from polling import wait_until

from other_servers.llamacpp import MODEL
from other_servers.service import Service, start_service
from other_servers.streams import (
    CHAT,
    COMPLETIONS,
    chat,
    completion,
    open_stream,
    post,
    read_stream,
)
from other_servers.transformers_serve import transformers_serve

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    entry = {"model": MODEL, "dialect": "openai"}
    failures = {"silence_s": 60.0, "first_silence_s": 60.0}
    with start_service(
        folder, [transformers_serve(folder)], entry, {"failures": failures}
    ) as running:
        yield running


def test_it_is_ready_under_the_name_that_its_entry_gives(service: Service) -> None:
    assert HTTP.get(f"{service.servers[0].url}/v1/models").json()["data"] == []
    assert HTTP.get(f"{service.servers[0].url}/health").json() == {"status": "ok"}
    (model,) = HTTP.get(f"{service.gateway.url}/v1/models").json()["data"]
    assert model["id"] == MODEL


@pytest.mark.parametrize(
    ("path", "body"),
    [(CHAT, chat("hello", 8)), (COMPLETIONS, completion("def add(a, b):\n", 8))],
)
def test_a_stream_without_done_is_complete_and_gets_one(
    service: Service, path: str, body: dict[str, Any]
) -> None:
    """Whole answers have the same text, and each event of a stream passes as it is."""
    direct = read_stream(service.servers[0].url, path, body)
    assert (direct.is_done, direct.finish_reasons) == (False, ["length"])
    stream = read_stream(service.gateway.url, path, body)
    assert (stream.is_done, stream.finish_reasons, stream.errors) == (True, ["length"], [])
    assert [one.keys() for one in stream.events] == [one.keys() for one in direct.events]
    status, whole = post(service.gateway.url, path, body)
    assert (status, whole["usage"]["completion_tokens"]) == (200, 8)
    choice = whole["choices"][0]
    assert (
        stream.text == direct.text == choice.get("message", {}).get("content", choice.get("text"))
    )


def test_the_usage_is_in_the_last_event(service: Service) -> None:
    """Also for a client that does not ask, in the event with the `finish_reason`."""
    for options in ({}, {"stream_options": {"include_usage": True}}):
        last = read_stream(service.gateway.url, CHAT, chat("hello", 4, **options)).events[-1]
        assert last["usage"]["completion_tokens"] == 4
        assert last["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("fields", "code"), [({"top_k": 3}, "invalid_value"), ({"min_p": 0.1}, "invalid_value")]
)
def test_a_refused_field_is_an_error_that_clients_understand(
    service: Service, fields: dict[str, Any], code: str
) -> None:
    status, answer = post(service.gateway.url, CHAT, chat("hello", 4, **fields))
    assert (status, answer["error"]["code"]) == (400, code), answer
    assert set(answer["error"]) == {"message", "type", "param", "code"}


def test_the_server_stops_when_the_client_of_a_stream_leaves(service: Service) -> None:
    """The server has no metrics, but a process that computes nothing uses no processor time."""
    body = completion("def f(", 1800)
    with open_stream(service.gateway.url, COMPLETIONS, body, 2):
        assert service.gateway.num_in_flight == 1
    wait_until(lambda: service.gateway.num_in_flight == 0)
    assert post(service.gateway.url, COMPLETIONS, completion("x", 2))[0] == 200
    process = psutil.Process(service.servers[0].pid)

    def is_idle() -> bool:
        return process.cpu_percent(interval=0.5) < 10

    wait_until(is_idle)


def test_a_stream_whose_server_is_killed_ends_with_an_error(service: Service) -> None:
    """The last test of the file, because nothing starts the server again."""
    body = completion("def f(", 1800)
    with open_stream(service.gateway.url, COMPLETIONS, body, 2) as (stream, lines):
        service.servers[0].kill()
        for line in lines:
            stream.take(line)
    assert (stream.is_done, stream.finish_reasons) == (False, [])
    (error,) = stream.errors
    assert error["code"] == "engine_unavailable"
