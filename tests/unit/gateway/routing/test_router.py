"""The router picks the least loaded replica that is ready and whose breaker admits the request."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.peers import SlotQuota
from paceline.runtime.gateway.proxy.lease import LeaseTable
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.needs import Needs, NeedsKind
from paceline.runtime.gateway.requests.plan import RequestCost
from paceline.runtime.gateway.routing.breaker import Breakers, OpenBreakers
from paceline.runtime.gateway.routing.ranker import Candidate, RankedReplica
from paceline.runtime.gateway.routing.router import Router
from paceline.runtime.gateway.routing.stream_progress import ProgressWatch
from paceline.runtime.gateway.settings import AdmissionSettings, FailureSettings
from paceline.runtime.gateway.signals import ReplicaSignals
from paceline.runtime.gateway.workers.messages import PeerState, SlotAllocation
from paceline.runtime.gateway.workers.peer_view import PeerWorkerView
from unit.gateway.conftest import FixedReplicas

R0 = Replica("r0", "/run/r0.sock", "tiny", "ready", max_model_len=100)
R1 = Replica("r1", "http://host:8000", "tiny", "ready", max_model_len=200)
ANY = NeedsKind()
UNDRAFTED = NeedsKind(is_undrafted=True)
DOWN = Replica("r2", "/run/r2.sock", "tiny", "down")


def leases_with(breakers: Breakers) -> LeaseTable:
    return LeaseTable(breakers, ProgressWatch())


async def test_the_least_loaded_ready_replica_is_chosen() -> None:
    breakers = Breakers(FailureSettings())
    leases, source = leases_with(breakers), FixedReplicas([R0, R1, DOWN])
    router = Router(source, leases, breakers, AdmissionSettings())
    assert router.choose("tiny", Needs()) is R0
    async with leases.lease(R0):
        assert router.choose("tiny", Needs()) is R1
        assert router.choose("tiny", Needs(), avoid=["r1"]) is R0
    assert router.choose("tiny", Needs(), avoid=["r0", "r1"]) is None
    assert router.choose("other", Needs()) is None
    source.current = [DOWN]
    assert router.choose("tiny", Needs()) is None


async def test_a_replica_with_an_open_breaker_is_the_last_resort() -> None:
    breakers = Breakers(FailureSettings())
    router = Router(FixedReplicas([R0, R1]), leases_with(breakers), breakers, AdmissionSettings())
    now_s = time.monotonic()
    breakers.began("r0", now_s).ended(Outcome.UNREACHABLE, now_s)
    assert router.choose("tiny", Needs()) is R1
    assert router.choose("tiny", Needs(), avoid=["r1"]) is R0
    assert router.choose("tiny", Needs(), avoid=["r1"], otherwise=OpenBreakers.NONE) is None


async def test_a_half_open_breaker_gets_one_trial_request_among_idle_replicas() -> None:
    breakers = Breakers(FailureSettings(open_s=1.0))
    leases = leases_with(breakers)
    router = Router(FixedReplicas([R0, R1]), leases, breakers, AdmissionSettings())
    now_s = time.monotonic()
    breakers.began("r1", now_s - 2.0).ended(Outcome.UNREACHABLE, now_s - 2.0)
    assert router.choose("tiny", Needs()) is R1
    probe = breakers.began("r1", now_s)
    assert router.choose("tiny", Needs()) is R0  # one request tries it, no more
    probe.ended(Outcome.COMPLETED, now_s)
    assert router.choose("tiny", Needs()) is R0
    breakers.began("r1", now_s - 2.0).ended(Outcome.UNREACHABLE, now_s - 2.0)
    async with leases.lease(R1):
        assert router.choose("tiny", Needs()) is R0


async def test_load_is_the_share_of_slots_in_use() -> None:
    breakers = Breakers(FailureSettings())
    leases = leases_with(breakers)
    small, large = replace(R0, max_in_flight=2), replace(R1, max_in_flight=8)
    router = Router(FixedReplicas([small, large]), leases, breakers, AdmissionSettings())
    async with leases.lease(small), leases.lease(large), leases.lease(large):
        assert router.choose("tiny", Needs()) is large


async def test_slots_of_a_replica_with_an_open_breaker_do_not_count() -> None:
    breakers = Breakers(FailureSettings())
    leases = leases_with(breakers)
    router = Router(FixedReplicas([R0, R1, DOWN]), leases, breakers, AdmissionSettings())
    assert set(router.quotas("tiny", ANY)) == {"r0", "r1"}
    now_s = time.monotonic()
    breakers.began("r0", now_s).ended(Outcome.UNREACHABLE, now_s)
    assert router.quotas("tiny", ANY) == {"r1": SlotQuota(256, 256)}


async def test_a_new_request_goes_where_all_its_sequences_fit() -> None:
    breakers = Breakers(FailureSettings())
    leases = leases_with(breakers)
    small, large = replace(R0, max_in_flight=2), replace(R1, max_in_flight=8)
    router = Router(FixedReplicas([small, large]), leases, breakers, AdmissionSettings())
    assert router.choose_with_room("tiny", ANY, RequestCost(2), ()) is small
    assert router.choose_with_room("tiny", ANY, RequestCost(3), ()) is large
    assert router.choose_with_room("tiny", ANY, RequestCost(2), ["r0"]) is large
    assert router.choose_with_room("tiny", ANY, RequestCost(9), ()) is None
    async with leases.lease(large, RequestCost(7)):
        assert router.choose_with_room("tiny", ANY, RequestCost(2), ()) is small
        assert router.choose_with_room("tiny", ANY, RequestCost(2), ["r0"]) is None
        assert router.quotas("tiny", ANY)["r1"] == SlotQuota(8, 8, num_held=7)
        assert router.choose("tiny", Needs(), avoid=["r0"]) is large  # admitted before


async def test_a_new_request_goes_only_to_replicas_that_can_serve_it() -> None:
    breakers = Breakers(FailureSettings())
    drafting = replace(R0, drafts=True)
    router = Router(
        FixedReplicas([drafting, R1]), leases_with(breakers), breakers, AdmissionSettings()
    )
    assert router.choose_with_room("tiny", UNDRAFTED, RequestCost(1), ()) is R1
    assert router.choose_with_room("tiny", UNDRAFTED, RequestCost(1), ["r1"]) is None
    assert set(router.quotas("tiny", UNDRAFTED)) == {"r1"}


class Recording:
    """A routing rule that records what it was given."""

    def __init__(self) -> None:
        self.candidates: list[Candidate] = []

    def rank(self, candidates: Sequence[Candidate]) -> list[RankedReplica]:
        self.candidates = list(candidates)
        return [RankedReplica(candidate.replica, "first") for candidate in candidates]


class FixedSignals:
    def signals(self) -> Mapping[str, ReplicaSignals]:
        return {"r1": ReplicaSignals(3, 1, 0.5, 0.75, 0.02)}


async def test_routing_rules_see_what_the_replicas_report() -> None:
    breakers, ranker = Breakers(FailureSettings()), Recording()
    router = Router(
        FixedReplicas([R0, R1]),
        leases_with(breakers),
        breakers,
        AdmissionSettings(),
        signals=FixedSignals(),
        ranker=ranker,
    )
    assert router.choose("tiny", Needs()) is R0
    assert [candidate.signals for candidate in ranker.candidates] == [
        None,
        ReplicaSignals(3, 1, 0.5, 0.75, 0.02),
    ]


async def test_tokens_in_flight_are_limited_where_a_limit_is_set() -> None:
    """A request that exceeds the limit by itself runs where nothing else does."""
    breakers = Breakers(FailureSettings())
    leases = leases_with(breakers)
    small, large = replace(R0, max_tokens_in_flight=100), replace(R1, max_tokens_in_flight=500)
    router = Router(FixedReplicas([small, large]), leases, breakers, AdmissionSettings())
    assert router.choose_with_room("tiny", ANY, RequestCost(1, 2000, 256), ()) is small
    async with leases.lease(small, RequestCost(1, 60, 10)):
        assert router.choose_with_room("tiny", ANY, RequestCost(1, 20, 10), ["r1"]) is small
        assert router.choose_with_room("tiny", ANY, RequestCost(1, 20, 11), ["r1"]) is None
        async with leases.lease(large, RequestCost(1, 300, 100)):
            assert router.choose_with_room("tiny", ANY, RequestCost(1, 80, 20), ()) is large
            assert router.choose_with_room("tiny", ANY, RequestCost(1, 80, 21), ()) is None


async def test_a_worker_has_the_same_share_of_the_tokens_as_of_the_slots() -> None:
    breakers, peers = Breakers(FailureSettings()), PeerWorkerView()
    leases = leases_with(breakers)
    settings = AdmissionSettings(max_in_flight=8, max_tokens_in_flight=800)
    router = Router(FixedReplicas([R0]), leases, breakers, settings, peers)
    allocation = SlotAllocation(num_slots=8, limit=2, fair_share=4)
    peers.update(PeerState(1, slots={"r0": allocation}))
    async with leases.lease(R0, RequestCost(1, 100, 50)):
        assert router.choose_with_room("tiny", ANY, RequestCost(1, 40, 10), ()) is R0
        assert router.choose_with_room("tiny", ANY, RequestCost(1, 40, 11), ()) is None


@pytest.mark.parametrize(
    ("first", "other", "may_continue"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", None, False),
        (None, "a", False),
        (None, None, True),
    ],
)
async def test_only_the_same_revision_continues_a_stream(
    first: str | None, other: str | None, may_continue: bool
) -> None:
    """New weights under the same name would finish the old answer. A new answer may begin there."""
    breakers = Breakers(FailureSettings())
    replicas = [replace(R0, revision=first), replace(R1, revision=other)]
    router = Router(FixedReplicas(replicas), leases_with(breakers), breakers, AdmissionSettings())
    assert router.choose("tiny", Needs(), ["r0"]) is replicas[1]
    found = router.choose("tiny", Needs(), ["r0"], continues_from=replicas[0])
    assert (found is replicas[1]) is may_continue


@pytest.mark.parametrize(
    ("first", "other", "may_continue"),
    [
        (100, 200, True),
        (100, 100, True),
        (200, 100, False),
        (None, 100, True),
        (100, None, True),
        (None, None, True),
    ],
)
async def test_only_as_long_a_context_continues_a_stream(
    first: int | None, other: int | None, may_continue: bool
) -> None:
    breakers = Breakers(FailureSettings())
    replicas = [replace(R0, max_model_len=first), replace(R1, max_model_len=other)]
    router = Router(FixedReplicas(replicas), leases_with(breakers), breakers, AdmissionSettings())
    found = router.choose("tiny", Needs(), ["r0"], continues_from=replicas[0])
    assert (found is replicas[1]) is may_continue


async def test_only_a_replica_that_reports_token_ids_continues_a_stream() -> None:
    breakers = Breakers(FailureSettings())
    replicas = [R0, replace(R1, dialect="sglang")]
    router = Router(FixedReplicas(replicas), leases_with(breakers), breakers, AdmissionSettings())
    assert router.choose("tiny", Needs(), ["r0"]) is replicas[1]
    assert router.choose("tiny", Needs(), ["r0"], continues_from=R0) is None


async def test_sequences_of_the_other_processes_count_as_load() -> None:
    breakers, peers = Breakers(FailureSettings()), PeerWorkerView()
    leases = leases_with(breakers)
    router = Router(FixedReplicas([R0, R1]), leases, breakers, AdmissionSettings(), peers)
    allocation = SlotAllocation(num_slots=256, limit=256, fair_share=128, num_held_by_peers=1)
    peers.update(PeerState(1, slots={"r0": allocation}))
    assert router.choose("tiny", Needs()) is R1
