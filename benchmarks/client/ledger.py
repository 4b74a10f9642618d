"""The figures of a run from the mock server's request log, computed without the code under test.

Nothing here imports `paceline.workbench.bench`. Percentiles and rates follow the definitions in
docs/bench.md, from the server's own times: arrival, first token, end and number of tokens.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.testing.mock_vllm import read_request_log


@dataclass(frozen=True, slots=True)
class LedgerRequest:
    """One request as the server saw it. Times are seconds since the epoch."""

    request_id: str
    begun_s: float
    first_token_s: float | None
    ended_s: float
    num_tokens: int
    is_finished: bool

    @property
    def phase(self) -> int:
        """Ids are bench-RUN-PHASE-INDEX-TURN."""
        return int(self.request_id.split("-")[2])

    @property
    def ttft_s(self) -> float:
        assert self.first_token_s is not None
        return self.first_token_s - self.begun_s

    @property
    def e2e_s(self) -> float:
        return self.ended_s - self.begun_s

    @property
    def tpot_s(self) -> float | None:
        if self.num_tokens < 2:
            return None
        return (self.e2e_s - self.ttft_s) / (self.num_tokens - 1)


def read_ledger(path: Path, run_prefix: str) -> list[LedgerRequest]:
    """The requests of one run, in the order in which they arrived."""
    return [
        LedgerRequest(
            request_id=record.request_id,
            begun_s=record.begun_s,
            first_token_s=record.first_token_s,
            ended_s=record.ended_s,
            num_tokens=record.num_tokens,
            is_finished=record.ending == "finished",
        )
        for record in read_request_log(path)
        if record.request_id.startswith(run_prefix) and record.ended_s is not None
    ]


def ledger_figures(
    requests: Sequence[LedgerRequest], num_sent: int, slo_ms: Mapping[str, float]
) -> dict[str, float]:
    """Every figure of the summary by name.

    `num_sent` counts what the client sent: a request that the server refused is not in its log.
    """
    done = [r for r in requests if r.is_finished]
    window_s = max(r.ended_s for r in requests) - min(r.begun_s for r in requests)
    num_met = sum(_meets(r, slo_ms) for r in done)
    figures = {
        "num_requests": float(num_sent),
        "num_errors": float(num_sent - len(done)),
        "output_tokens": float(sum(r.num_tokens for r in done)),
        "output_tokens_per_s": sum(r.num_tokens for r in done) / window_s,
        "requests_per_s": len(done) / window_s,
        "goodput.attained_fraction": num_met / num_sent,
        "goodput.requests_per_s": num_met / window_s,
    }
    samples = {
        "ttft_ms": [r.ttft_s * 1e3 for r in done],
        "tpot_ms": [r.tpot_s * 1e3 for r in done if r.tpot_s is not None],
        "e2e_ms": [r.e2e_s * 1e3 for r in done],
    }
    for name, values in samples.items():
        figures[f"{name}.mean"] = statistics.fmean(values)
        for level in (50, 90, 99):
            figures[f"{name}.p{level}"] = percentile(values, level)
    return figures


def tokens_between(requests: Sequence[LedgerRequest], start_s: float, end_s: float) -> float:
    """Tokens sent in [start_s, end_s); those of an answer are evenly spaced."""
    total = 0.0
    for request in requests:
        if not request.is_finished or request.first_token_s is None:
            continue
        step_s = (request.ended_s - request.first_token_s) / max(request.num_tokens - 1, 1)
        times_s = (request.first_token_s + step_s * k for k in range(request.num_tokens))
        total += sum(start_s <= time_s < end_s for time_s in times_s)
    return total


def percentile(values: Sequence[float], level: float) -> float:
    """Linear interpolation between order statistics (Hyndman and Fan's type 7)."""
    ordered = sorted(values)
    rank = level / 100 * (len(ordered) - 1)
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


def _meets(request: LedgerRequest, slo_ms: Mapping[str, float]) -> bool:
    measured = {"ttft": request.ttft_s, "tpot": request.tpot_s, "e2e": request.e2e_s}
    return all(
        measured[name] is None or measured[name] * 1e3 <= bound  # type: ignore[operator]
        for name, bound in slo_ms.items()
    )
