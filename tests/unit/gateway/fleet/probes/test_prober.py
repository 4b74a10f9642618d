"""Polls that this process could not send."""

from __future__ import annotations

import pytest

from paceline.gateway.fleet.dialects import DIALECTS
from paceline.gateway.fleet.prober import (
    Prober,
    ReplicaProbeFailed,
    ReplicaProbeNotSent,
)
from unit.no_descriptors import no_descriptors


async def test_a_poll_without_descriptors_says_nothing_about_the_replica() -> None:
    async with Prober("http://127.0.0.1:1", DIALECTS["vllm"]) as prober:
        with pytest.raises(ReplicaProbeFailed) as refused:
            await prober.check_health(1.0)
        assert not isinstance(refused.value, ReplicaProbeNotSent)
        with no_descriptors(), pytest.raises(ReplicaProbeNotSent):
            await prober.check_health(1.0)
