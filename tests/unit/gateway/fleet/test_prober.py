"""Parsing of /v1/models."""

from __future__ import annotations

import pytest

from paceline.gateway.fleet.prober import ListedModel, ReplicaProbeFailed, parse_models


def test_models_are_read_as_vllm_lists_them() -> None:
    page = b'{"object":"list","data":[{"id":"a","max_model_len":2048},{"id":"b"},{"id":5},7]}'
    assert parse_models(page) == [ListedModel("a", 2048), ListedModel("b")]


@pytest.mark.parametrize("page", [b"", b"[]", b'{"data":5}', b"<html>"])
def test_a_body_without_a_model_list_is_a_failed_probe(page: bytes) -> None:
    with pytest.raises(ReplicaProbeFailed):
        parse_models(page)
