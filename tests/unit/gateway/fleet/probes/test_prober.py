"""Parsing of /v1/models, and polls that this process could not send."""

from __future__ import annotations

import pytest

from paceline.gateway.fleet.dialects import DIALECTS
from paceline.gateway.fleet.prober import (
    ListedModel,
    Prober,
    ReplicaProbeFailed,
    ReplicaProbeNotSent,
    parse_models,
)
from unit.no_descriptors import no_descriptors


def test_models_are_read_as_vllm_lists_them() -> None:
    page = b'{"object":"list","data":[{"id":"a","max_model_len":2048},{"id":"b"},{"id":5},7]}'
    assert parse_models(page) == [ListedModel("a", 2048), ListedModel("b")]


@pytest.mark.parametrize("page", [b"", b"[]", b'{"data":5}', b"<html>"])
def test_a_body_without_a_model_list_is_a_failed_probe(page: bytes) -> None:
    with pytest.raises(ReplicaProbeFailed):
        parse_models(page)


async def test_a_poll_without_descriptors_says_nothing_about_the_replica() -> None:
    async with Prober("http://127.0.0.1:1", DIALECTS["vllm"]) as prober:
        with pytest.raises(ReplicaProbeFailed) as refused:
            await prober.check_health(1.0)
        assert not isinstance(refused.value, ReplicaProbeNotSent)
        with no_descriptors(), pytest.raises(ReplicaProbeNotSent):
            await prober.check_health(1.0)
