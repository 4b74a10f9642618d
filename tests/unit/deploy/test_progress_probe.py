"""The liveness probe of engines: busy without progress fails, anything else does not."""

from __future__ import annotations

import http.server
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.operations.deploy.progress_probe import Progress, Reading, judge, main, read_metrics

_PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:generation_tokens_total{engine="0",model_name="m"} 120.0
vllm:generation_tokens_total{engine="1",model_name="m"} 30.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:generation_tokens_created{engine="0",model_name="m"} 1.7e+09
"""
_LIMIT_S = 300.0


def test_counters_of_all_engines_are_summed() -> None:
    assert read_metrics(_PAGE.splitlines()) == Reading(True, (150.0, 7.0, 0.25, 0.0, 0.0))


def test_a_server_whose_requests_only_wait_is_busy() -> None:
    assert read_metrics(['vllm:num_requests_waiting{a="b"} 3.0']).is_busy


@pytest.mark.parametrize(
    ("counters", "is_busy", "now_s", "is_alive"),
    [
        ((5.0,), True, 1300.0, True),  # at the limit
        ((5.0,), True, 1300.1, False),
        ((5.0,), False, 9000.0, True),  # idle
        ((6.0,), True, 9000.0, True),  # moved
        ((5.0,), True, 900.0, True),  # the clock was set back
    ],
)
def test_an_engine_is_dead_when_it_is_busy_and_nothing_moves_for_the_limit(
    counters: tuple[float, ...], is_busy: bool, now_s: float, is_alive: bool
) -> None:
    before = Progress(moved_at_s=1000.0, counters=(5.0,))
    assert judge(before, Reading(is_busy, counters), now_s, _LIMIT_S)[1] is is_alive


def test_time_in_which_the_engine_is_idle_does_not_count() -> None:
    idle, _ = judge(Progress(0.0, (5.0,)), Reading(False, (5.0,)), 900.0, _LIMIT_S)
    assert judge(idle, Reading(True, (5.0,)), 1100.0, _LIMIT_S)[1]


def test_the_first_call_remembers() -> None:
    assert judge(None, Reading(True, (5.0,)), 7.0, _LIMIT_S) == (Progress(7.0, (5.0,)), True)


@pytest.fixture
def metrics_url() -> Iterator[str]:
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(_PAGE.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()


def _probe(monkeypatch: pytest.MonkeyPatch, url: str, state: Path, limit_s: str) -> int:
    arguments = ["probe", f"--url={url}", f"--state={state}", f"--limit-s={limit_s}"]
    monkeypatch.setattr(sys, "argv", arguments)
    return main()


def test_calls_compare_with_the_state_that_the_last_one_left(
    metrics_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state.json"
    assert _probe(monkeypatch, metrics_url, state, "300") == 0
    assert _probe(monkeypatch, metrics_url, state, "0") == 1
    state.write_text("{")  # cut off: as a first call
    assert _probe(monkeypatch, metrics_url, state, "0") == 0


def test_metrics_that_cannot_be_read_fail_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _probe(monkeypatch, "http://127.0.0.1:1/metrics", tmp_path / "state", "300") == 1


def test_the_probe_asks_its_own_pod_whatever_proxy_downloads_use(
    metrics_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a company's proxy, an overlay sets HTTP_PROXY for the weights."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert _probe(monkeypatch, metrics_url, tmp_path / "state", "300") == 0


def test_a_state_that_cannot_be_kept_does_not_end_the_engine(
    metrics_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Such as on a full disk; each call is then a first one."""
    state = tmp_path / "gone" / "state.json"
    for _ in range(2):
        assert _probe(monkeypatch, metrics_url, state, "0") == 0
    assert "state.json cannot be written" in capsys.readouterr().err
    state.parent.write_text("a file where a folder is needed")
    assert _probe(monkeypatch, metrics_url, state, "0") == 0
