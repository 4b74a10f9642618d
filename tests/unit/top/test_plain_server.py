"""`paceline top` of a vLLM server without a gateway, from two metrics pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice

import pytest
from click.testing import CliRunner

from paceline.cli import main
from paceline.operations.top.connection import Server, ServerProblem
from paceline.operations.top.history import Watched
from paceline.operations.top.plain_server import PlainServer, changes

_GOVERNED = """\
paceline_governor_draft_length{replica="engine-0"} 3
paceline_governor_draft_length_ceiling{replica="engine-0"} 8
paceline_governor_accepted_fraction{replica="engine-0"} 0.75
paceline_governor_expected_goodput_tokens_per_second{replica="engine-0"} 130
paceline_governor_policy_info{replica="engine-0",policy="goodput"} 1
"""


def _page(number: int, *, governed: bool = True) -> str:
    """Each page adds 4 requests of 30 ms to the first token, one of which failed, and 60 tokens."""
    return (
        'vllm:num_requests_running{engine="0"} 2\n'
        'vllm:num_requests_waiting{engine="0"} 1\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
        f'vllm:generation_tokens_total{{engine="0"}} {60 * number}\n'
        f'vllm:request_success_total{{engine="0",finished_reason="stop"}} {3 * number}\n'
        f'vllm:request_success_total{{engine="0",finished_reason="error"}} {number}\n'
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.02"} 0\n'
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.04"}} {4 * number}\n'
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf"}} {4 * number}\n'
        f'vllm:time_to_first_token_seconds_sum{{engine="0"}} {0.12 * number}\n'
        + (_GOVERNED if governed else "")
    )


class Vllm:
    """Answers /metrics with the page of the next second; it has no live view."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.num_pages = 0
        self.page = _page


@pytest.fixture
def vllm() -> Iterator[Vllm]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404)
                return
            served.num_pages += 1
            self.send_response(200)
            self.end_headers()
            self.wfile.write(served.page(served.num_pages).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = Vllm(server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield served
        server.shutdown()


def plain(vllm: Vllm) -> PlainServer:
    """A second passes from page to page."""
    return PlainServer(Server(vllm.url), lambda: 1000.0 + vllm.num_pages, lambda seconds: None)


def test_its_figures_are_those_of_its_page(vllm: Vllm) -> None:
    latest = plain(vllm).fetch()["latest"]
    traffic, (replica,) = latest["traffic"], latest["replicas"]
    assert (traffic["requests_per_s"], traffic["failed_per_s"]) == (4, 1)
    assert (traffic["num_in_flight"], traffic["num_waiting"]) == (2, 1)
    assert traffic["ttft_p50_ms"] == 30  # in the middle of the only bucket
    assert traffic["tpot_p50_ms"] is None
    assert replica["tokens_per_s"] == 60
    assert (replica["draft_length"], replica["accepted_fraction"]) == (3, 0.75)
    assert replica["expected_tokens_per_s"] == 130
    assert replica["governor"]["policy"] == "goodput"


def test_a_terminal_is_updated_every_second(vllm: Vllm) -> None:
    (_, history), *updates = islice(plain(vllm).events(), 3)
    watched = Watched(history)
    for name, update in updates:
        assert name == "update"
        watched.update(update)
    assert watched.series("fleet", "tokens_per_s") == [60, 60, 60]


def test_a_server_without_the_plugin_is_shown_without_a_governor(vllm: Vllm) -> None:
    vllm.page = lambda number: _page(number, governed=False)
    (replica,) = plain(vllm).fetch()["latest"]["replicas"]
    assert replica["governor"] is None
    assert replica["draft_length"] is None
    assert replica["tokens_per_s"] == 60


def test_the_command_finds_the_page_by_itself(vllm: Vllm) -> None:
    result = CliRunner().invoke(main, ["top", vllm.url, "--json", "-"])
    assert result.exit_code == 0
    assert json.loads(result.output)["latest"]["fleet"]["draft_length"] == 3


def test_another_server_is_named_as_such(vllm: Vllm) -> None:
    vllm.page = lambda number: "go_goroutines 3\n"
    with pytest.raises(ServerProblem, match="neither a live view nor metrics of vLLM"):
        plain(vllm).fetch()


def test_what_changes_in_a_governor_becomes_events() -> None:
    before = {"policy": "goodput", "draft_length": 3.0}
    after = {"policy": "fixed", "draft_length": 0.0, "safe_plan_reason": "because of ValueError"}
    found = changes(before, after, 5.0)
    assert [(one["text"], one["is_problem"]) for one in found] == [
        ("policy goodput → fixed", False),
        ("because of ValueError", True),
        ("draft length 3 → 0", False),
    ]
    assert changes(before, before, 5.0) == []
