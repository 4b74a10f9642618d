"""Which key goes to which port, and answers that are no numbers or no objects."""

from __future__ import annotations

import json

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from paceline.operations.validate.target.answers import read_answer
from paceline.operations.validate.target.counters import MetricFamily, read_counters
from paceline.operations.validate.target.exchange import Reply, Stream
from paceline.operations.validate.target.target import Addresses, Target
from paceline.operations.validate.values import Violation

_PAGE = 'vllm:num_requests_running{engine="0"} 1\n'


@pytest.mark.parametrize(
    ("has_admin_port", "expected"), [(False, "Bearer data"), (True, "Bearer admin")]
)
async def test_the_admin_key_goes_to_the_admin_port_only(
    has_admin_port: bool, expected: str
) -> None:
    seen: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/metrics":
            seen.append(request.headers.get("Authorization"))
            return web.Response(text=_PAGE)
        return web.json_response({"data": [{"id": "m", "owned_by": "vllm"}]})

    server = web.ServerRunner(web.Server(answer))
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0)
    await site.start()
    try:
        url = URL(f"http://127.0.0.1:{server.addresses[0][1]}")
        addresses = Addresses(url, url if has_admin_port else None, "data", "admin")
        async with aiohttp.ClientSession() as session:
            target = Target(session, addresses)
            await target.identify(None)
            await target.metrics_page()
    finally:
        await server.cleanup()
    assert seen == [expected]


def test_a_vllm_server_with_pacelines_plugin_is_read_as_vllm() -> None:
    page = "paceline_engine_honours_draft_caps 1\nvllm:num_requests_running 2\n"
    counters = read_counters(page)
    assert counters is not None
    assert counters.dialect == "vllm"
    assert counters[MetricFamily.RUNNING] == 2


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_counter_that_is_no_finite_number_is_a_fault(value: str) -> None:
    with pytest.raises(Violation, match="vllm:num_requests_running"):
        read_counters(f"vllm:num_requests_running {value}\n")


def test_an_answer_that_is_nested_too_deep_is_no_json_object() -> None:
    nested = b"[" * 100_000
    with pytest.raises(Violation, match="no JSON object"):
        Reply("GET /x", 200, {}, nested).document()
    with pytest.raises(Violation, match="no JSON object"):
        Stream("stream of /x", 200, "", (nested,)).chunks()


def test_log_probabilities_that_are_a_list_are_a_fault() -> None:
    choice = {"index": 0, "text": "a", "finish_reason": "length", "logprobs": []}
    reply = Reply("POST", 200, {}, json.dumps({"choices": [choice]}).encode())
    with pytest.raises(Violation, match=r"logprobs is \[\], expected an object"):
        read_answer(reply)
