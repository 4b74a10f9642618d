"""Do the gateway's small parts keep their promises?"""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.gateway import GatewaySettings, PortTaken, Replica, serve_gateway
from paceline.gateway.housekeeping import Housekeeping
from paceline.gateway.http.sse import EventRelay, has_error, split_at_error
from paceline.gateway.outcomes import Outcome
from paceline.gateway.proxy.lease import LeaseTable
from paceline.gateway.proxy.upstream import Upstreams
from paceline.gateway.replicas import longest_context
from paceline.gateway.requests.needs import Needs
from paceline.gateway.routing.breaker import Breakers, BreakerState, Ticket
from paceline.gateway.routing.router import Router
from paceline.gateway.routing.stall_detection import ProgressWatch
from paceline.gateway.settings import AdmissionSettings, FailureSettings
from unit.gateway.conftest import SETTINGS, FixedReplicas

R0 = Replica("r0", "/run/r0.sock", "tiny", "ready", max_model_len=100)
R1 = Replica("r1", "http://host:8000", "tiny", "ready", max_model_len=200)
DOWN = Replica("r2", "/run/r2.sock", "tiny", "down")

STREAM = (
    'data: {"choices":[{"delta":{"content":"né 😀 data: [DONE]"}}]}\n\n'
    ": keep-alive\n\n"
    'data: {"choices":[],"usage":{"prompt_tokens":3,"total_tokens":9,"completion_tokens":6}}\n\n'
    "data: [DONE]\n\n"
).encode()


class Upstream:
    num_closed = 0

    def close(self) -> None:
        self.num_closed += 1


def ledger_with(breakers: Breakers, **changes: float) -> LeaseTable:
    return LeaseTable(breakers, ProgressWatch(FailureSettings(**changes), 120, 300))


class NotedBreakers(Breakers):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__(FailureSettings())
        self.ends: list[tuple[str, Outcome]] = []

    def ended(self, ticket: Ticket, outcome: Outcome, now_s: float) -> None:
        self.ends.append((ticket.name, outcome))


async def test_a_lease_releases_once_with_its_first_outcome() -> None:
    breakers, upstream = NotedBreakers(), Upstream()
    ledger = ledger_with(breakers)
    async with ledger.lease(R0) as lease:
        assert ledger.num_in_flight("r0") == 1
        lease.own(upstream)
        lease.end(Outcome.BROKEN)
        lease.end(Outcome.CLIENT_GONE)
    assert breakers.ends == [("r0", Outcome.BROKEN)]
    assert (ledger.num_in_flight("r0"), upstream.num_closed) == (0, 1)
    assert repr(ledger) == "LeaseTable({})"


async def test_a_lease_is_released_by_faults_and_cancellation() -> None:
    breakers = NotedBreakers()
    ledger = ledger_with(breakers)

    async def hold() -> None:
        async with ledger.lease(R0):
            await asyncio.sleep(30)

    with pytest.raises(ZeroDivisionError):
        async with ledger.lease(R0):
            _ = 1 / 0
    holding = asyncio.ensure_future(hold())
    await asyncio.sleep(0)
    holding.cancel()
    await asyncio.wait([holding])
    assert [outcome for _, outcome in breakers.ends] == [
        Outcome.INTERNAL_ERROR,
        Outcome.SHUT_DOWN,
    ]
    assert repr(ledger) == "LeaseTable({})"


async def test_a_replica_found_hung_loses_its_attempts_at_once() -> None:
    breakers, upstreams = NotedBreakers(), [Upstream(), Upstream()]
    ledger = ledger_with(breakers, silence_s=0.001, first_silence_s=0.001)
    async with ledger.lease(R0) as one, ledger.lease(R0) as two, ledger.lease(R1):
        one.own(upstreams[0])
        two.own(upstreams[1])
        one.watch_stream()
        await asyncio.sleep(0.01)
        assert ledger.cut_hung() == ["r0"]
        assert [upstream.num_closed for upstream in upstreams] == [1, 1]
        assert ledger.breaker_states()["r0"] is BreakerState.OPEN
    assert breakers.ends[1:] == [("r0", Outcome.TIMED_OUT)] * 2


async def test_a_replica_whose_breaker_is_open_is_taken_only_if_need_be() -> None:
    breakers = Breakers(FailureSettings())
    router = Router(FixedReplicas([R0, R1]), ledger_with(breakers), breakers, AdmissionSettings())
    now_s = time.monotonic()
    breakers.ended(breakers.began("r0", now_s), Outcome.UNREACHABLE, now_s)
    assert router.choose("tiny", Needs()) is R1
    assert router.choose("tiny", Needs(), avoid=["r1"]) is R0
    assert router.choose("tiny", Needs(), avoid=["r1"], allow_open_breakers=False) is None


async def test_of_idle_replicas_the_one_on_trial_is_taken() -> None:
    breakers = Breakers(FailureSettings(open_s=1.0))
    ledger = ledger_with(breakers)
    router = Router(FixedReplicas([R0, R1]), ledger, breakers, AdmissionSettings())
    now_s = time.monotonic()
    breakers.ended(breakers.began("r1", now_s - 2.0), Outcome.UNREACHABLE, now_s - 2.0)
    assert router.choose("tiny", Needs()) is R1
    probe = breakers.began("r1", now_s)
    assert router.choose("tiny", Needs()) is R0  # one request tries it, no more
    breakers.ended(probe, Outcome.COMPLETED, now_s)
    assert router.choose("tiny", Needs()) is R0
    breakers.ended(breakers.began("r1", now_s - 2.0), Outcome.UNREACHABLE, now_s - 2.0)
    async with ledger.lease(R1):
        assert router.choose("tiny", Needs()) is R0


async def test_load_is_the_share_of_the_places_that_are_taken() -> None:
    breakers = Breakers(FailureSettings())
    ledger = ledger_with(breakers)
    small, large = replace(R0, max_in_flight=2), replace(R1, max_in_flight=8)
    router = Router(FixedReplicas([small, large]), ledger, breakers, AdmissionSettings())
    async with ledger.lease(small), ledger.lease(large), ledger.lease(large):
        assert router.choose("tiny", Needs()) is large


async def test_places_of_a_replica_whose_breaker_is_open_do_not_count() -> None:
    breakers = Breakers(FailureSettings())
    ledger = ledger_with(breakers)
    router = Router(FixedReplicas([R0, R1]), ledger, breakers, AdmissionSettings())
    now_s = time.monotonic()
    breakers.ended(breakers.began("r0", now_s), Outcome.UNREACHABLE, now_s)
    assert router.open_to("tiny") == [R1]


async def test_a_replica_that_is_ready_again_begins_anew_and_one_that_left_is_forgotten() -> None:
    breakers = Breakers(FailureSettings())
    ledger, source = ledger_with(breakers), FixedReplicas([R0, R1])
    housekeeping = Housekeeping(source, ledger, Upstreams(SETTINGS), lambda name: None)
    now_s = time.monotonic()
    for name in ("r0", "r1"):
        breakers.ended(breakers.began(name, now_s), Outcome.UNREACHABLE, now_s)
    source.current = [replace(R0, state="down"), R1]
    housekeeping.look()
    assert set(ledger.breaker_states()) == {"r0", "r1"}
    source.current = [R0, R1]
    housekeeping.look()
    assert set(ledger.breaker_states()) == {"r1"}
    source.current = [R0]
    housekeeping.look()
    assert ledger.breaker_states() == {}


async def test_sessions_of_addresses_that_are_gone_are_closed() -> None:
    async with Upstreams(SETTINGS) as upstreams:
        sessions = [upstreams._session(replica)[0] for replica in (R0, R1)]
        await upstreams.keep_only([R1.address])
        assert [session.closed for session in sessions] == [True, False]
        assert upstreams._session(R1)[0] is sessions[1]


async def test_the_least_loaded_ready_replica_is_chosen() -> None:
    breakers = Breakers(FailureSettings())
    ledger, source = ledger_with(breakers), FixedReplicas([R0, R1, DOWN])
    router = Router(source, ledger, breakers, AdmissionSettings())
    assert router.choose("tiny", Needs()) is R0
    async with ledger.lease(R0):
        assert router.choose("tiny", Needs()) is R1
        assert router.choose("tiny", Needs(), avoid=["r1"]) is R0
    assert router.choose("tiny", Needs(), avoid=["r0", "r1"]) is None
    assert router.choose("other", Needs()) is None
    source.current = [DOWN]
    assert router.choose("tiny", Needs()) is None


def test_the_longest_context_is_unknown_when_one_is() -> None:
    assert longest_context([R0, R1]) == 200
    assert longest_context([R0, DOWN]) is None
    assert longest_context([]) is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_a_stream_cut_anywhere_passes_unchanged_in_whole_events(cuts: list[int]) -> None:
    relay = EventRelay(max_event_bytes=10_000)
    edges = [0, *sorted(cuts), len(STREAM)]
    out = [relay.feed(STREAM[a:b]) for a, b in itertools.pairwise(edges)]
    assert b"".join(out) == STREAM
    assert all(part.endswith(b"\n\n") for part in out if part)
    assert relay.saw_done
    assert relay.num_output_tokens == 6


def test_marks_inside_text_are_not_taken_for_marks() -> None:
    relay = EventRelay(max_event_bytes=10_000)
    event = b'data: {"content":"data: [DONE]\\n\\ndata: {\\"error\\": 1}"}\n\n'
    assert relay.feed(event) == event
    assert not relay.saw_done
    assert not has_error(event)


def test_half_an_event_is_held_back_up_to_the_limit() -> None:
    relay = EventRelay(max_event_bytes=10)
    assert relay.feed(b"data: a\n\ndata") == b"data: a\n\n"
    assert not relay.is_inside_event
    assert relay.feed(b": 0123456789") == b"data: 0123456789"
    assert relay.is_inside_event
    assert relay.feed(b"\n\n") == b"\n\n"
    assert not relay.is_inside_event


def test_events_with_carriage_returns_are_whole_too() -> None:
    relay = EventRelay(max_event_bytes=1000)
    assert relay.feed(b"data: a\r\n\r\ndata: b") == b"data: a\r\n\r\n"
    assert relay.feed(b"\r\n\r\n") == b"data: b\r\n\r\n"


def test_an_error_event_is_found_among_others() -> None:
    events = b'data: 1\n\ndata: {"error": {"code": 500}}\n\ndata: [DONE]\n\n'
    assert has_error(events)
    assert split_at_error(events) == (b"data: 1\n\n", b'{"error": {"code": 500}}')


def test_nothing_passes_behind_an_error_event() -> None:
    relay = EventRelay(max_event_bytes=1000)
    assert relay.feed(b'data: 1\n\ndata: {"error": 1}\n\ndata: [DONE]\n\n') == b"data: 1\n\n"
    assert relay.error == b'{"error": 1}'
    assert not relay.saw_done
    assert relay.feed(b"data: 2\n\n") == b""


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"port": 70_000}, "port is 70000; allowed are 0 to 65535"),
        ({"max_choices": 0}, "max_choices is 0; it must be at least 1"),
        ({"stall_timeout_s": 0}, "stall_timeout_s is 0; it must be more than 0"),
        ({"retry_after_s": 121}, "allowed are 1 to 120"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, int], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        GatewaySettings(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["relative.sock", ""])
def test_replica_addresses_of_other_kinds_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="Unix socket"):
        Replica("r0", address, "tiny", "ready")


async def test_a_taken_port_is_told_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = GatewaySettings(port=port, admin_port=0)
        with pytest.raises(PortTaken, match=f"Port {port} on 127.0.0.1 cannot be opened"):
            async with serve_gateway(settings, FixedReplicas([])):
                pass


async def test_a_gateway_without_replicas_serves_health_and_an_empty_list() -> None:
    import httpx

    async with (
        serve_gateway(SETTINGS, FixedReplicas([])) as gateway,
        httpx.AsyncClient(base_url=gateway.url) as http,
    ):
        assert (await http.get("/health")).status_code == 200
        assert (await http.get("/ready")).status_code == 503
        assert (await http.get("/v1/models")).json() == {"object": "list", "data": []}
