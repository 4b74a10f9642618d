"""What a replica says of itself is used only as far as it is a name or a number of tokens."""

from __future__ import annotations

import doctest
import json

import pytest

from paceline.runtime.gateway.fleet import identity, metrics_page
from paceline.runtime.gateway.fleet.identity import (
    ListedModel,
    Unreadable,
    parse_models,
    parse_version,
    read_revision,
)
from paceline.runtime.gateway.fleet.metrics_page import MetricsPage

NO_NAMES = ["", " ", "a ", "a\r\nb", "a\0", "a\x1b]0;b\x07", "a\u202eb", "\ud800", "m" * 300_000]
"""No id, version or revision that may reach a client, a log or another process."""


def test_models_are_read_as_vllm_lists_them() -> None:
    page = b'{"object":"list","data":[{"id":"a","max_model_len":2048},{"id":"b"},{"id":5},7]}'
    assert parse_models(page) == [ListedModel("a", 2048), ListedModel("b")]


@pytest.mark.parametrize("page", [b"", b"[]", b'{"data":5}', b"<html>"])
def test_a_body_without_a_model_list_is_a_failed_probe(page: bytes) -> None:
    with pytest.raises(Unreadable):
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


@pytest.mark.parametrize("page", [b"", b"[]", b'{"version": 7}', b'{"version": ""}', b"<html>"])
def test_a_body_without_a_version_has_none(page: bytes) -> None:
    assert parse_version(page) is None


@pytest.mark.parametrize("text", NO_NAMES)
def test_a_listed_id_that_is_no_name_is_left_out(text: str) -> None:
    bad, good = {"id": text, "max_model_len": 7}, {"id": "good"}
    assert parse_models(json.dumps({"data": [bad, good]}).encode()) == [ListedModel("good")]
    with pytest.raises(Unreadable, match="no model id of 1 to 256 printable characters"):
        parse_models(json.dumps({"data": [bad]}).encode())


@pytest.mark.parametrize("text", NO_NAMES)
def test_a_version_or_revision_that_is_no_name_is_unknown(text: str) -> None:
    assert parse_version(json.dumps({"version": text}).encode()) is None
    page = f'paceline_engine_revision_info{{revision="{text}"}} 1.0\n'
    assert read_revision(MetricsPage(page)) is None


@pytest.mark.parametrize(
    "number",
    [
        "1e400",
        "-1",
        "0",
        "NaN",
        "Infinity",
        "1" * 20,
        "1" * 5000,
        "4294967296",
        "1.5",
        '"7"',
        "true",
    ],
)
@pytest.mark.parametrize("form", ['"max_model_len":%s', '"meta":{"n_ctx":%s}', '"created":%s'])
def test_a_listed_number_of_any_size_leaves_the_context_unknown(form: str, number: str) -> None:
    page = b'{"data":[{"id":"m",%s}]}' % (form % number).encode()
    assert parse_models(page) == [ListedModel("m")]


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b"\xff\xfe", b'{"data":', b"\x1f\x8b" + bytes(50)]
)
def test_a_body_that_is_no_json_is_no_list_of_models(body: bytes) -> None:
    with pytest.raises(Unreadable, match="not JSON"):
        parse_models(body)
    assert parse_version(body) is None


@pytest.mark.parametrize(
    "items",
    [
        "{}," * 100_000,
        '{"id":"m"},' * 60_000,
        "[]," * 60_000,
        "7," * 200_000,
        '{"id":"m",' + ",".join(f'"{key}":1.5' for key in range(110_000)) + "},",
        ("[" * 400 + "]" * 400 + ",") * 300,
    ],
    ids=["empty", "models", "lists", "numbers", "keys of one model", "nested"],
)
def test_a_list_of_models_with_too_many_values_is_not_read(items: str) -> None:
    """It is within the limit on its length; to read it would hold up the streams of all clients."""
    body = b'{"data":[%s{"id":"good"}]}' % items.encode()
    assert len(body) < 2 * 1024 * 1024
    with pytest.raises(Unreadable, match="more than 100000 values"):
        parse_models(body)


def test_a_list_of_four_thousand_models_of_vllm_is_read() -> None:
    fields = {f"field{number}": [None] for number in range(9)}
    models = [{"id": f"m{number}", "max_model_len": 7, **fields} for number in range(4000)]
    listed = parse_models(json.dumps({"data": models}).encode())
    assert [model.id for model in listed] == [model["id"] for model in models]


@pytest.mark.parametrize("module", [identity, metrics_page])
def test_examples_in_docstrings_run(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0
