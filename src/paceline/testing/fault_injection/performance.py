"""Faults of latency and of errors under load."""

from __future__ import annotations

from paceline.testing.fault_injection.fault import CUT, Call, Event, Fault, Reply

_EVERY = 4
_FIRST_DELAY_S = 0.15
_EVENT_DELAY_S = 0.01
_SMALL_LOAD = {"num_requests": 8, "concurrency": 8}
"""Enough where every request is slow."""


def _fail_some(call: Call) -> Call | Reply:
    if call.generates and call.number % _EVERY == 0:
        return Reply(500, {"content-type": "application/json"}, b'{"error": {"message": "no"}}')
    return call


def _cut_some(call: Call, event: Event) -> list[Event]:
    return [CUT] if call.number % _EVERY == 0 else [event]


FAULTS = (
    Fault(
        "load-500",
        "load-errors",
        "Every fourth request gets status 500.",
        "requests failed: http_error",
        on_call=_fail_some,
    ),
    Fault(
        "load-cut",
        "load-errors",
        "Every fourth stream breaks off.",
        "requests failed: connection",
        on_event=_cut_some,
    ),
    Fault(
        "ttft-slow",
        "ttft-p99",
        "The first token comes late.",
        "requests are above",
        first_delay_s=_FIRST_DELAY_S,
        tier_changes={**_SMALL_LOAD, "ttft_p99_ms": 1e3 * _FIRST_DELAY_S / 2},
    ),
    Fault(
        "tpot-slow",
        "tpot-p99",
        "Every token comes late.",
        "requests are above",
        event_delay_s=_EVENT_DELAY_S,
        tier_changes={**_SMALL_LOAD, "tpot_p99_ms": 1e3 * _EVENT_DELAY_S / 2},
    ),
)
