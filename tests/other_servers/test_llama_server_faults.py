"""Two of llama.cpp's servers behind the gateway, and one of them is killed or hangs.

Its streams carry no token ids, so that a stream that has begun is not continued elsewhere.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from polling import wait_until

from other_servers.service import Service, start_llama_servers
from other_servers.streams import (
    COMPLETIONS,
    Stream,
    completion,
    open_stream,
    post,
    read_stream,
)

pytestmark = pytest.mark.slow

LONG = completion("def f(", 400)


@pytest.fixture(scope="module")
def running(gguf_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with start_llama_servers(
        gguf_model, tmp_path_factory.mktemp("service"), num_servers=2
    ) as service:
        yield service


@pytest.fixture
def service(running: Service) -> Iterator[Service]:
    """The service, with both servers ready again after the test."""
    yield running
    for server in running.servers:
        if server.is_alive:
            server.signal(signal.SIGCONT)
        else:
            server.start()
    running.gateway.wait_ready(2, within_s=60)
    wait_until(lambda: running.gateway.num_in_flight == 0)


def _busy(service: Service) -> int:
    """The server with one request in flight, which the gateway reports at once."""
    counts = [replica["in_flight"] for replica in service.gateway.replicas()]
    return counts.index(1)


def _is_broken(stream: Stream) -> bool:
    kinds = [error["type"] for error in stream.errors]
    has_end = stream.is_done or stream.finish_reasons
    return kinds == ["service_unavailable_error"] and not has_end


def test_requests_are_spread_over_both_servers(service: Service) -> None:
    before = [one.metrics()["llamacpp:tokens_predicted_total"] for one in service.servers]
    with ThreadPoolExecutor(4) as threads:
        bodies = [completion(f"def f{i}(", 24) for i in range(8)]
        answers = list(threads.map(lambda b: post(service.gateway.url, COMPLETIONS, b), bodies))
    assert [status for status, _ in answers] == [200] * 8
    after = [one.metrics()["llamacpp:tokens_predicted_total"] for one in service.servers]
    assert all(now - then >= 24 for then, now in zip(before, after, strict=True))


def test_the_death_of_a_server_ends_its_stream_with_an_error_and_no_other(
    service: Service,
) -> None:
    with open_stream(service.gateway.url, COMPLETIONS, LONG, 3) as (dying, dying_lines):
        victim = _busy(service)
        with open_stream(service.gateway.url, COMPLETIONS, LONG, 3) as (other, other_lines):
            service.servers[victim].kill()
            for line in dying_lines:
                dying.take(line)
            for line in other_lines:
                other.take(line)
    assert _is_broken(dying)
    direct = read_stream(service.servers[1 - victim].url, COMPLETIONS, LONG)
    assert direct.text.startswith(dying.text), "what was sent is right as far as it goes"
    assert (other.is_done, other.text) == (True, direct.text)
    wait_until(lambda: service.gateway.replicas()[victim]["state"] == "down")
    assert post(service.gateway.url, COMPLETIONS, completion("x", 2))[0] == 200


def test_a_server_that_dies_before_the_first_token_is_replaced_unseen(service: Service) -> None:
    """A prompt that takes seconds; the client waits for the whole answer."""
    body = completion("def f(a, b, c):\n    return 0\n" * 40, 8)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(post, service.gateway.url, COMPLETIONS, body)
        wait_until(lambda: service.gateway.num_in_flight == 1)
        service.servers[_busy(service)].kill()
        status, answer = waiting.result()
    assert status == 200, answer
    assert answer["usage"]["completion_tokens"] == 8


def test_a_server_that_hangs_in_a_stream_ends_it_with_an_error(service: Service) -> None:
    with open_stream(service.gateway.url, COMPLETIONS, LONG, 3) as (stream, lines):
        service.servers[_busy(service)].signal(signal.SIGSTOP)
        for line in lines:
            stream.take(line)
    assert not stream.is_done
    assert [error["code"] for error in stream.errors] == ["engine_timeout"]
