"""The report shows a p99 only where there are enough requests, and names what is saturated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.gateway.latency_report import MIN_REQUESTS_FOR_P99, render_report
from benchmarks.results_file import render_result


def run(arm: str, num_requests: int, num_cores: float) -> dict[str, Any]:
    times = {"p50": 1.0, "p90": 2.0, "p99": 77.7}
    return {
        "arm": arm,
        "repeat": 0,
        "num_begun": num_requests,
        "num_with_first_token": num_requests,
        "num_failed": 0,
        "ttft_ms": times,
        "inter_chunk_ms": times,
        "ttfts_ms": [5.0] * num_requests,
        "cores": {"gateway": num_cores, "client": 0.1, "replicas": 0.1, "machine": 1.2},
    }


def report(folder: Path, num_requests: int, num_cores: float = 0.1) -> str:
    shape = {
        "name": "8", "num_streams": 8, "tpot_ms": 5.0, "min_tokens": 1, "max_tokens": 2,
        "seconds": 3.0,
    }  # fmt: skip
    runs = [run("direct", num_requests, 0.0), run("paceline", num_requests, num_cores)]
    document = {
        "environment": {
            "date_utc": "today", "cpu_model": "x", "num_logical_cores": 2, "paceline": "1",
            "python": "3", "command": "c",
        },
        "versions": {},
        "scheduling": "normal",
        "levels": [{"level": shape, "replicas": {"count": 2}, "runs": runs}],
    }  # fmt: skip
    path = folder / "result.json"
    path.write_text(render_result(document))
    return render_report(path)


def pooled_line(text: str, arm: str) -> str:
    _, _, pooled = text.partition("TTFT, all repeats together")
    return next(line for line in pooled.splitlines() if line.startswith(f"| {arm} "))


@pytest.mark.parametrize(
    ("num_requests", "p99"), [(MIN_REQUESTS_FOR_P99 - 1, "—"), (MIN_REQUESTS_FOR_P99, "5.00")]
)
def test_a_p99_needs_enough_requests(tmp_path: Path, num_requests: int, p99: str) -> None:
    text = report(tmp_path, num_requests)
    line = f"| paceline | 5.00 | 5.00 | {p99} | 5.00 | {num_requests} |"
    assert pooled_line(text, "paceline") == line
    ttft, _, _ = text.partition("TTFT, all repeats together")
    assert "77.7" not in ttft, "no p99 of one repeat"


def test_a_gateway_that_uses_up_its_core_is_called_saturated(tmp_path: Path) -> None:
    assert "| paceline (saturated) |" in report(tmp_path, 1000, num_cores=0.99)
    assert "(saturated)" not in report(tmp_path, 1000, num_cores=0.9)
