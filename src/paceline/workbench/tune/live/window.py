"""The figures of a window in steady load, from the requests that overlap it.

A closed loop keeps its requests in flight before, in and after the window. A request counts by the
fraction of its duration that lies in the window, so that the few requests of a short block give a
rate without the error of whole numbers. Shares and percentiles count every request that is due in
the window once, also those that end after it: the slow ones do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.foundation.load.records import RequestRecord
from paceline.foundation.results.slo import Slo
from paceline.workbench.tune.values import Measurement, TuneError


def measure_window(
    records: Sequence[RequestRecord], slo: Slo, start_s: float, end_s: float
) -> Measurement:
    """The figures between the two times.

    Raises TuneError if it is unknown what meets the SLO, or if no request is due in the window,
    because every answer takes longer than the block.
    """
    met = [slo.is_met(record) for record in records]
    if None in met:
        raise TuneError(
            "answers came without usage, so the time per output token is unknown; leave out "
            "--slo-tpot-ms, or serve with an engine that reports usage"
        )
    shares = [_share(record, start_s, end_s) for record in records]
    length_s = end_s - start_s
    due = [
        (record, bool(is_met))
        for record, is_met in zip(records, met, strict=True)
        if start_s <= record.scheduled_s < end_s
    ]
    if not due:
        longest_s = max((record.e2e_s for record in records), default=0.0)
        raise TuneError(
            f"no request began within the {length_s:g} s that were measured, because the answers "
            f"took up to {longest_s:.1f} s; give --block-seconds above that, --max-tokens less, or "
            "smaller values of live.max_in_flight (--space)"
        )
    done = [record for record, _ in due if record.is_ok]
    return Measurement(
        good_requests_per_s=sum(s for s, is_met in zip(shares, met, strict=True) if is_met)
        / length_s,
        requests_per_s=sum(s for s, one in zip(shares, records, strict=True) if one.is_ok)
        / length_s,
        output_tokens_per_s=sum(
            s * (record.output_tokens or 0) for s, record in zip(shares, records, strict=True)
        )
        / length_s,
        num_requests=len(due),
        num_met=sum(is_met for _, is_met in due),
        num_errors=len(due) - len(done),
        ttft_p95_ms=_p95_ms([record.ttft_s for record in done]),
        tpot_p95_ms=_p95_ms([record.tpot_s for record in done]),
    )


def _share(record: RequestRecord, start_s: float, end_s: float) -> float:
    """Fraction of the request's duration within the window."""
    overlap_s = min(record.finished_s, end_s) - max(record.scheduled_s, start_s)
    return max(0.0, overlap_s) / max(record.finished_s - record.scheduled_s, 1e-9)


def _p95_ms(times_s: Sequence[float | None]) -> float | None:
    known = [time_s * 1e3 for time_s in times_s if time_s is not None]
    return float(np.percentile(known, 95)) if known else None
