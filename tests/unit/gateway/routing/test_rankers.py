"""The contract of every routing rule, and the rules themselves.

Rules are found in `paceline.runtime.gateway.routing.rankers`: a new one is held to the contract as
soon as its file exists.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil
import random

import pytest

from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.routing import rankers
from paceline.runtime.gateway.routing.ranker import Candidate, ReplicaRanker
from paceline.runtime.gateway.routing.rankers.least_load import LeastLoad


def find_rankers() -> list[type[ReplicaRanker]]:
    """Every class with a method `rank` that a module of the package defines."""
    found = []
    for info in pkgutil.walk_packages(rankers.__path__, f"{rankers.__name__}."):
        module = importlib.import_module(info.name)
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == info.name and hasattr(kind, "rank"):
                found.append(kind)
    return found


RANKERS = find_rankers()


def candidate(
    name: str, here: int = 0, at_peers: int = 0, slots: int = 4, order: int = 1
) -> Candidate:
    return Candidate(Replica(name, f"/{name}.sock", "m", "ready"), here, at_peers, slots, order)


def random_candidates(rng: random.Random) -> list[Candidate]:
    return [
        candidate(
            f"r{index}",
            rng.randrange(5),
            rng.randrange(3),
            rng.choice((1, 4, 256)),
            rng.randrange(3),
        )
        for index in range(rng.randrange(2, 12))
    ]


def test_the_default_is_among_the_rules_that_are_found() -> None:
    assert rankers.DEFAULT_RANKER in RANKERS


@pytest.mark.parametrize("kind", RANKERS)
def test_without_candidates_the_ranking_is_empty(kind: type[ReplicaRanker]) -> None:
    assert kind().rank([]) == []


@pytest.mark.parametrize("kind", RANKERS)
def test_a_single_candidate_is_ranked(kind: type[ReplicaRanker]) -> None:
    only = candidate("r0", here=4, order=2)
    (ranked,) = kind().rank([only])
    assert ranked.replica is only.replica
    assert ranked.reason.strip()


@pytest.mark.parametrize("kind", RANKERS)
@pytest.mark.parametrize("seed", range(50))
def test_a_ranking_keeps_the_contract(kind: type[ReplicaRanker], seed: int) -> None:
    """A permutation with reasons; the same again, also from another instance; nothing mutated."""
    candidates = random_candidates(random.Random(seed))
    before, ranker = copy.deepcopy(candidates), kind()
    ranked = ranker.rank(candidates)
    assert candidates == before
    assert sorted(one.replica.name for one in ranked) == sorted(c.replica.name for c in candidates)
    assert all(one.reason.strip() for one in ranked)
    ranker.rank(list(reversed(candidates)))
    assert ranker.rank(candidates) == ranked
    assert kind().rank(candidates) == ranked


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([candidate("a", here=1), candidate("b")], ["b", "a"]),
        ([candidate("a", here=1), candidate("b", at_peers=2)], ["a", "b"]),
        ([candidate("a", here=1, slots=2), candidate("b", here=2, slots=8)], ["b", "a"]),
        ([candidate("a", order=1), candidate("b", order=0)], ["b", "a"]),
        ([candidate("a", order=2), candidate("b", order=1)], ["b", "a"]),
        ([candidate("a", order=0, here=1), candidate("b", order=2)], ["b", "a"]),
        ([candidate("b"), candidate("a")], ["b", "a"]),
    ],
)
def test_least_load_orders_by_share_of_slots_then_breaker_then_position(
    candidates: list[Candidate], expected: list[str]
) -> None:
    assert [one.replica.name for one in LeastLoad().rank(candidates)] == expected
