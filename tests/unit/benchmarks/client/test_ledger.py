"""The figures from a request log, worked out from two requests with round times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.client.ledger import ledger_figures, percentile, read_ledger, tokens_between

FIELDS = {
    "pid": 1,
    "route": "/v1/completions",
    "prompt_hash": "",
    "num_prompt_tokens": 3,
    "max_tokens": 9,
    "seed": None,
    "answer_hash": None,
}


def write_log(path: Path, *requests: dict[str, object]) -> Path:
    path.write_text(
        "".join(
            json.dumps({"event": "ended", "number": number, **FIELDS, **request}) + "\n"
            for number, request in enumerate(requests)
        )
    )
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two answers of 5 and 3 tokens, one that a fault ended, and a request of another run."""
    times = {"begun_s": 100.0, "first_token_s": 101.0, "ended_s": 103.0, "ending": "finished"}
    return write_log(
        tmp_path / "log.jsonl",
        {"request_id": "bench-ab-0-0-0", "num_tokens": 5, **times},
        {"request_id": "bench-ab-1-0-0", "num_tokens": 3, **times, "first_token_s": 102.0},
        {"request_id": "bench-ab-0-1-0", "num_tokens": 1, **times, "ending": "fault:reset"},
        {"request_id": "bench-cd-0-0-0", "num_tokens": 9, **times},
    )


def test_figures_follow_from_the_servers_times(log: Path) -> None:
    """TTFT 1 and 2 s, TPOT 2 / 4 and 1 / 2 s, 8 tokens in 3 s; of four sent, two failed."""
    requests = read_ledger(log, "bench-ab-")
    figures = ledger_figures(requests, num_sent=4, slo_ms={"ttft": 1500.0})
    assert figures["num_errors"] == 2
    assert figures["output_tokens"] == 8
    assert figures["output_tokens_per_s"] == pytest.approx(8 / 3)
    assert figures["ttft_ms.mean"] == 1500
    assert figures["tpot_ms.p50"] == 500
    assert figures["goodput.attained_fraction"] == 0.25
    assert [request.phase for request in requests] == [0, 1, 0]


def test_tokens_are_spread_from_the_first_to_the_end(log: Path) -> None:
    """The first answer's at 101, 101.5, 102, 102.5, 103; the second's at 102, 102.5, 103."""
    requests = read_ledger(log, "bench-ab-")
    assert tokens_between(requests, 101.0, 102.0) == 2
    assert tokens_between(requests, 102.0, 103.0) == 4


def test_percentiles_interpolate() -> None:
    assert percentile([4.0, 1.0, 2.0, 3.0], 50) == 2.5
    assert percentile([1.0], 99) == 1.0
