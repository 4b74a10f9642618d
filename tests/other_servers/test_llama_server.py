"""llama.cpp's server behind the gateway: answers, usage, errors, load, and clients that leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chaos.gateway_process import HTTP
from polling import wait_until

from other_servers.llamacpp import CONTEXT, MODEL
from other_servers.service import Service, start_llama_servers
from other_servers.streams import (
    CHAT,
    COMPLETIONS,
    chat,
    completion,
    open_stream,
    post,
    read_stream,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(gguf_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A whole answer of more than 2 s is suspect, which the last test needs."""
    folder = tmp_path_factory.mktemp("service")
    with start_llama_servers(gguf_model, folder, num_servers=1, first_silence_s=2.0) as running:
        yield running


def test_it_is_ready_under_its_alias_with_its_context(service: Service) -> None:
    (replica,) = service.gateway.replicas()
    assert (replica["model"], replica["state"]) == (MODEL, "ready")
    (model,) = HTTP.get(f"{service.gateway.url}/v1/models").json()["data"]
    assert (model["id"], model["max_model_len"]) == (MODEL, CONTEXT)


@pytest.mark.parametrize(("path", "body"), [
    (CHAT, chat("hello", 16)), (COMPLETIONS, completion("def add(a, b):\n", 16)),
])  # fmt: skip
def test_whole_answers_and_streams_have_the_same_text(
    service: Service, path: str, body: dict[str, Any]
) -> None:
    """The same as without the gateway, event by event. The usage is not sent unasked; with it goes
    `timings`, which llama.cpp puts into the event with the usage of a chat."""
    url, direct_url = service.gateway.url, service.servers[0].url
    status, whole = post(url, path, body)
    assert (status, whole["usage"]["completion_tokens"]) == (200, 16)
    stream, direct = read_stream(url, path, body), read_stream(direct_url, path, body)
    assert (stream.is_done, stream.finish_reasons, stream.errors) == (True, ["length"], [])
    choice = whole["choices"][0]
    assert stream.text == choice.get("message", {}).get("content", choice.get("text"))
    assert stream.text == direct.text
    fields = [[event.keys() - {"timings"} for event in one.events] for one in (stream, direct)]
    assert fields[0] == fields[1]


def test_the_usage_is_sent_to_a_client_that_asks(service: Service) -> None:
    body = chat("hello", 8, stream_options={"include_usage": True})
    last = read_stream(service.gateway.url, CHAT, body).events[-1]
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 8)


def test_tokens_are_counted_without_token_ids(service: Service) -> None:
    def counted() -> float:
        samples = service.gateway.metrics().items()
        return sum(n for name, n in samples if name.startswith("paceline_output_tokens_total"))

    before = counted()
    read_stream(service.gateway.url, CHAT, chat("hello", 8))
    assert counted() - before == 8


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (COMPLETIONS, completion("a b " * CONTEXT, 4), "context_length_exceeded"),
        (COMPLETIONS, completion("a b " * CONTEXT, 4, stream=True), "context_length_exceeded"),
        (CHAT, chat("hello", 4, n=2), "unsupported_parameter"),
        (CHAT, chat("hello", 4, response_format={"type": "json_schema", "json_schema": {
            "name": "x", "schema": {"type": "no such type"}}}), "invalid_value"),
    ],
)  # fmt: skip
def test_refusals_have_the_form_that_clients_understand(
    service: Service, path: str, body: dict[str, Any], code: str
) -> None:
    status, answer = post(service.gateway.url, path, body)
    assert (status, answer["error"]["code"]) == (400, code), answer
    assert set(answer["error"]) == {"message", "type", "param", "code"}
    assert post(service.gateway.url, CHAT, chat("hello", 2))[0] == 200


def _num_processing(service: Service) -> float:
    return service.servers[0].metrics()["llamacpp:requests_processing"]


def test_the_server_stops_when_the_client_of_a_stream_leaves(service: Service) -> None:
    with open_stream(service.gateway.url, COMPLETIONS, completion("def f(", CONTEXT - 8), 2):
        assert _num_processing(service) == 1
    wait_until(lambda: _num_processing(service) == 0)
    assert service.gateway.num_in_flight == 0


def test_a_client_that_leaves_a_whole_answer_frees_its_slot_in_the_gateway_alone(
    service: Service,
) -> None:
    """This release of the server computes such an answer to its end, also without the gateway."""
    body = completion("def f(", 900)
    with pytest.raises(httpx.ReadTimeout):
        # limit: the client leaves; the answer takes seconds longer
        HTTP.post(service.gateway.url + COMPLETIONS, json=body, timeout=0.5)
    wait_until(lambda: service.gateway.num_in_flight == 0)
    assert _num_processing(service) == 1
    wait_until(lambda: _num_processing(service) == 0)
    assert post(service.gateway.url, COMPLETIONS, completion("x", 2))[0] == 200


def test_its_load_and_time_per_token_are_read(service: Service) -> None:
    body = completion("def f(", 64)
    with open_stream(service.gateway.url, COMPLETIONS, body, 2) as (_, lines):
        wait_until(lambda: service.gateway.replicas()[0]["load"]["num_running"] == 1)
        for _ in lines:
            pass
    wait_until(lambda: service.gateway.replicas()[0]["load"]["num_running"] == 0)
    wait_until(lambda: service.gateway.replicas()[0]["seconds_per_token"] is not None)
    (replica,) = service.gateway.replicas()
    assert 0 < replica["seconds_per_token"] < 1
    assert replica["load"]["generation_tokens_total"] > 64
    assert replica["load"]["kv_usage_fraction"] is None


def test_a_long_whole_answer_is_no_hang(service: Service) -> None:
    """The server counts its tokens when it ends; only its steps show that it works meanwhile."""
    body = completion("def f(", CONTEXT - 8)
    status, answer = post(service.gateway.url, COMPLETIONS, body)
    assert status == 200, answer
    assert answer["usage"]["completion_tokens"] > 100
