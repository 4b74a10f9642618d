"""Warnings about a run: what makes its figures wrong, and what makes them uncertain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from paceline.foundation.load.loads import ClosedLoop, Load, OpenLoop
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.results.bootstrap import BootstrapInterval
from paceline.foundation.results.distribution import MIN_REQUESTS_FOR_P99
from paceline.workbench.bench.results.client_health import ClientHealth
from paceline.workbench.bench.results.other_traffic import find_other_traffic
from paceline.workbench.bench.results.saturation import find_queue_growth
from paceline.workbench.bench.results.speculation import Speculation
from paceline.workbench.bench.results.summary import Summary

MAX_STALLED_FRACTION = 0.01
"""Stalls longer in all than this share of the run reach its p99."""
MAX_CPU_FRACTION = 0.9
"""A process with one working thread that is busier than this queues its own work."""
MAX_LOOP_LAG_MS = 50.0
"""p99. Every arrival time is late by up to the lag; chosen as half of a noticeable delay."""
MAX_HALF_WIDTH_FRACTION = 0.05
"""Of an interval: a run that cannot tell 5 % apart is noisy."""
MAX_LENGTH_ERROR_FRACTION = 0.05
"""Between the tokens that were asked for and those that the server counted, on average."""
MIN_REQUESTS_FOR_P90 = 50
"""Five samples beyond the percentile, as for p99."""


@dataclass(frozen=True, slots=True)
class RunWarning:
    """One thing to know before trusting the figures."""

    id: str
    """Stable name, for programs."""
    message: str
    invalidates: bool = False
    """Whether the figures describe something other than the server."""


def judge_client(
    summary: Summary, client: ClientHealth, max_dispatch_delay_ms: float
) -> Iterator[RunWarning]:
    """Warnings about the load generator."""
    late_ms = summary.dispatch_delay_ms.p99
    if late_ms is not None and late_ms > max_dispatch_delay_ms:
        yield RunWarning(
            "dispatch_delay",
            f"not valid: the load generator sent its requests {late_ms:.1f} ms late (p99); "
            f"at most {max_dispatch_delay_ms:g} ms are allowed (--max-dispatch-delay-ms). Lower "
            "the rate, or run the load generator on another machine than the server",
            invalidates=True,
        )
    cpu, lag_ms = client.cpu_fraction, client.event_loop_lag_ms_p99
    is_busy = cpu is not None and cpu > MAX_CPU_FRACTION
    is_slow = lag_ms is not None and lag_ms > MAX_LOOP_LAG_MS
    if is_busy or is_slow:
        yield RunWarning(
            "client_bottleneck",
            f"not valid: the load generator is the bottleneck: it used {cpu or 0:.0%} of a core "
            f"and its event loop ran {lag_ms or 0:.1f} ms late (p99); at most "
            f"{MAX_CPU_FRACTION:.0%} and {MAX_LOOP_LAG_MS:g} ms are allowed. Lower the load, or "
            "run several load generators on machines of their own",
            invalidates=True,
        )
    if client.num_stalls:
        longest_s = max(stall.duration_s for stall in client.stalls)
        invalidates = (client.stalled_fraction or 0.0) > MAX_STALLED_FRACTION
        yield RunWarning(
            "client_stalls",
            f"{'not valid: ' if invalidates else ''}the load generator stalled "
            f"{client.num_stalls} times, {client.stalled_s:.2f} s in all, {longest_s:.2f} s at the "
            f"longest; the latencies of {client.num_requests_stalled} requests include that. "
            "Something else uses its cores, or the process was paused",
            invalidates=invalidates,
        )


def judge_figures(
    summary: Summary, intervals: Mapping[str, BootstrapInterval]
) -> Iterator[RunWarning]:
    """Warnings about failures, samples and noise."""
    done = summary.num_requests - summary.num_errors
    if summary.num_errors:
        yield RunWarning(
            "errors", f"{summary.num_errors} of {summary.num_requests} requests failed"
        )
    if summary.num_without_usage:
        goodput = summary.goodput
        is_goodput_unknown = goodput is not None and goodput.num_met is None
        yield RunWarning(
            "no_usage",
            f"{summary.num_without_usage} answers came without usage, so their token counts are "
            "unknown: output tokens/s is not reported, and they have no time per output token"
            + (
                ". Goodput is not reported: its objective bounds that time (tpot in --slo)"
                if is_goodput_unknown
                else ""
            ),
        )
    if summary.num_empty:
        yield RunWarning(
            "empty_answers",
            f"{summary.num_empty} answers were empty and have no time to first token",
        )
    if summary.ttft_ms.note and done < MIN_REQUESTS_FOR_P99:
        uncertain = "p90 and p99 come" if done < MIN_REQUESTS_FOR_P90 else "p99 comes"
        needed = f"p99 needs {MIN_REQUESTS_FOR_P99}"
        if done < MIN_REQUESTS_FOR_P90:
            needed += f", p90 {MIN_REQUESTS_FOR_P90}"
        yield RunWarning(
            "few_samples", f"{uncertain} from {done} requests, which is too few: {needed}"
        )
    interval, rate = intervals.get("output_tokens_per_s"), summary.output_tokens_per_s
    if interval is not None and rate:
        half_width = (interval.high - interval.low) / 2 / rate
        if half_width > MAX_HALF_WIDTH_FRACTION:
            yield RunWarning(
                "noise",
                f"output tokens/s are known to +/-{half_width:.0%} only (95 %, over "
                f"{interval.num_units} {interval.units}); a longer run or --repeats narrows that",
            )


def judge_lengths(records: Sequence[RequestRecord]) -> Iterator[RunWarning]:
    """Warnings about prompts and answers of other lengths than were asked for."""
    done = [r for r in records if r.is_ok]
    for what, pairs, reason in (
        (
            "prompts",
            [(r.asked_input_tokens, r.prompt_tokens) for r in done],
            "texts of a length are made by the mean number of characters per token",
        ),
        (
            "answers",
            [(r.asked_output_tokens, r.output_tokens) for r in done],
            "the server ends answers although ignore_eos is set, or its context is full",
        ),
    ):
        known = [(a, g) for a, g in pairs if a is not None and g is not None]
        asked, given = (sum(column) for column in zip(*known, strict=True)) if known else (0, 0)
        if abs(given - asked) > MAX_LENGTH_ERROR_FRACTION * asked:
            yield RunWarning(
                "lengths",
                f"the {what} have {given / len(known):.1f} tokens on average where "
                f"{asked / len(known):.1f} were asked for: {reason}",
            )


def judge_counters(
    speculation: Speculation, records: Sequence[RequestRecord], *, is_interrupted: bool = False
) -> Iterator[RunWarning]:
    """A warning about counters that hold the traffic of other clients, too."""
    other = find_other_traffic(speculation, records, is_interrupted=is_interrupted)
    if other is None:
        return
    yield RunWarning(
        "other_traffic",
        f"the server's counters include other clients: they hold at least {other.counted_tokens:,} "
        f"output tokens in the window, of which this run received {other.own_tokens:,}. "
        "Acceptance and drafted tokens are those of all of them, and their load is in the "
        "latencies",
    )


def judge_load(
    phases: Sequence[tuple[str, Load]], records: Sequence[RequestRecord]
) -> Iterator[RunWarning]:
    """Warnings about a queue that grew. `phases` are names and loads; records name their phase."""
    for number, (name, load) in enumerate(phases):
        if isinstance(load, ClosedLoop):
            continue
        if isinstance(load, OpenLoop) and load.final_rate_per_s is not None:
            continue  # A rising rate fills the server by design.
        for repeat in sorted({r.repeat for r in records}):
            mine = [r for r in records if r.phase == number and r.repeat == repeat]
            growth = find_queue_growth(mine)
            if growth is not None:
                where = f" in phase {name!r}" if len(phases) > 1 else ""
                yield RunWarning(
                    "saturation",
                    f"the queue grew{where}: {growth.in_flight_second_quarter:.1f} requests in "
                    "flight in the second quarter of the arrivals, "
                    f"{growth.in_flight_last_quarter:.1f} in the last, and the median latency rose "
                    f"from {growth.e2e_ms_second_quarter:.0f} to {growth.e2e_ms_last_quarter:.0f} "
                    "ms. The server does not keep up with this load, and its latencies depend on "
                    "the length of the run",
                )
                break
