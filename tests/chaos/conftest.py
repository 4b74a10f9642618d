"""A gateway over two mock replicas, each a process of its own, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.fleet import Fleet, running_fleet


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    with running_fleet(2, "--tpot-ms", "4") as running:
        yield running


@pytest.fixture
def fleet(pair: Fleet) -> Fleet:
    """The fleet of the file, with both replicas ready and without faults."""
    pair.restore()
    return pair
