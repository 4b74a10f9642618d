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
    parse_version,
)
from unit.no_descriptors import no_descriptors


def test_models_are_read_as_vllm_lists_them() -> None:
    page = b'{"object":"list","data":[{"id":"a","max_model_len":2048},{"id":"b"},{"id":5},7]}'
    assert parse_models(page) == [ListedModel("a", 2048), ListedModel("b")]


@pytest.mark.parametrize("page", [b"", b"[]", b'{"data":5}', b"<html>"])
def test_a_body_without_a_model_list_is_a_failed_probe(page: bytes) -> None:
    with pytest.raises(ReplicaProbeFailed):
        parse_models(page)


def test_llama_cpp_lists_the_context_of_a_slot_under_meta() -> None:
    """Recorded with llama.cpp 0c1e570, without fields that nothing here reads."""
    page = (
        b'{"object":"list","data":[{"id":"tiny","object":"model","meta":{"n_ctx":1024,'
        b'"n_ctx_train":2048}},{"id":"b","max_model_len":7,"meta":{"n_ctx":9}},'
        b'{"id":"c","meta":null},{"id":"d","meta":{"n_ctx":0}}]}'
    )
    lengths = [(model.id, model.max_model_len) for model in parse_models(page)]
    assert lengths == [("tiny", 1024), ("b", 7), ("c", None), ("d", None)]


async def test_a_poll_without_descriptors_says_nothing_about_the_replica() -> None:
    async with Prober("http://127.0.0.1:1", DIALECTS["vllm"]) as prober:
        with pytest.raises(ReplicaProbeFailed) as refused:
            await prober.check_health(1.0)
        assert not isinstance(refused.value, ReplicaProbeNotSent)
        with no_descriptors(), pytest.raises(ReplicaProbeNotSent):
            await prober.check_health(1.0)


@pytest.mark.parametrize("page", [b"", b"[]", b'{"version": 7}', b'{"version": ""}', b"<html>"])
def test_a_body_without_a_version_has_none(page: bytes) -> None:
    assert parse_version(page) is None


def test_a_version_is_cut_to_a_bounded_length() -> None:
    assert parse_version(b'{"version": "%s"}' % (b"9" * 1000)) == "9" * 100
