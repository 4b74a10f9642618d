"""llama-cpp-python's server behind the gateway, as a server of the dialect `llamacpp-python`.

It computes one request at a time. By default a second request interrupts a stream, which then ends
with `[DONE]` as if it were complete.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from chaos.gateway_process import HTTP
from polling import wait_until

from other_servers.llamacpp import CONTEXT, MODEL, llama_cpp_python
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

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(gguf_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    changes = {
        "fleet": {"poll_timeout_s": 5.0},
        "failures": {"silence_s": 30.0, "first_silence_s": 60.0},
    }
    with start_service(
        folder, [llama_cpp_python(gguf_model, folder)], {"dialect": "llamacpp-python"}, changes
    ) as running:
        yield running


def test_it_is_ready_under_the_name_that_it_lists(service: Service) -> None:
    (replica,) = service.gateway.replicas()
    assert (replica["model"], replica["state"]) == (MODEL, "ready")
    assert replica["load"] is None


def test_whole_answers_and_streams_have_the_same_text(service: Service) -> None:
    status, whole = post(service.gateway.url, CHAT, chat("hello", 16))
    assert status == 200
    assert whole["usage"]["completion_tokens"] == 16
    stream = read_stream(service.gateway.url, CHAT, chat("hello", 16))
    assert (stream.is_done, stream.finish_reasons) == (True, ["length"])
    assert stream.text == whole["choices"][0]["message"]["content"]
    direct = read_stream(service.servers[0].url, CHAT, chat("hello", 16))
    assert stream.text == direct.text


def test_streams_wait_for_one_another(service: Service) -> None:
    """The gateway queues them, so that none is interrupted."""
    bodies = [completion(f"def f{i}(", 24) for i in range(3)]
    with ThreadPoolExecutor(3) as threads:
        streams = list(
            threads.map(lambda body: read_stream(service.gateway.url, COMPLETIONS, body), bodies)
        )
    assert [(one.is_done, one.finish_reasons) for one in streams] == [(True, ["length"])] * 3


def test_a_stream_that_another_client_interrupts_ends_with_an_error(service: Service) -> None:
    """The server sends `[DONE]` then, without a finish_reason, which clients take for success."""
    body = completion("def f(", 400)
    with open_stream(service.gateway.url, COMPLETIONS, body, 2) as (stream, lines):
        other = threading.Thread(target=post, args=(service.servers[0].url, COMPLETIONS,
                                                    completion("x", 1)))  # fmt: skip
        other.start()
        for line in lines:
            stream.take(line)
        other.join()
    assert (stream.is_done, stream.finish_reasons) == (False, [])
    assert [error["type"] for error in stream.errors] == ["service_unavailable_error"]


def test_the_server_stops_when_the_client_leaves(service: Service) -> None:
    """It would compute the rest of the context otherwise, and the next request would wait."""
    with open_stream(service.gateway.url, COMPLETIONS, completion("def f(", CONTEXT - 8), 2):
        pass
    wait_until(lambda: service.gateway.num_in_flight == 0)
    log = service.servers[0].log
    wait_until(lambda: "Disconnected from client" in log.read_text())


def test_polls_do_not_interrupt_a_long_answer(service: Service) -> None:
    """The gateway polls five times a second here; the server's list of models would interrupt."""
    stream = read_stream(service.gateway.url, COMPLETIONS, completion("def f(", 200))
    assert (stream.is_done, stream.finish_reasons) == (True, ["length"])
    assert not stream.errors


def test_a_field_that_the_server_refuses_is_the_clients_error(service: Service) -> None:
    """The server answers 500. vLLM takes -1 for no limit."""
    status, answer = post(service.gateway.url, COMPLETIONS, completion("x", 1, top_k=-1))
    assert (status, answer["error"]["code"]) == (400, "invalid_value")
    assert "greater than or equal to 0" in answer["error"]["message"]


def test_a_prompt_that_is_too_long_is_refused(service: Service) -> None:
    status, answer = post(service.gateway.url, COMPLETIONS, completion("a b " * CONTEXT, 4))
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")


def test_a_killed_server_ends_its_stream_with_an_error(service: Service) -> None:
    body = completion("def f(", 400)
    with open_stream(service.gateway.url, COMPLETIONS, body, 2) as (stream, lines):
        service.servers[0].kill()
        for line in lines:
            stream.take(line)
    assert (stream.is_done, stream.finish_reasons) == (False, [])
    assert [error["type"] for error in stream.errors] == ["service_unavailable_error"]
    assert HTTP.post(service.gateway.url + COMPLETIONS, json=body).status_code == 503
    service.servers[0].start()
    service.gateway.wait_ready(1, within_s=60)
    assert post(service.gateway.url, COMPLETIONS, completion("x", 2))[0] == 200
