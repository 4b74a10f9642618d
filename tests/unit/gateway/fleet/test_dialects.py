"""Are other servers' pages understood? On samples whose sources `data/dialects/README.md` names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.gateway.fleet.dialects import DIALECTS, Series, Share
from paceline.gateway.fleet.error_bodies import error_message_of, is_context_error
from paceline.gateway.fleet.load import ReplicaLoad, read_load
from paceline.gateway.settings.replica_entry import DIALECT_NAMES

DATA = Path(__file__).with_name("data") / "dialects"
ERRORS = json.loads((DATA / "errors.json").read_text())


def test_settings_name_the_dialects_of_the_table() -> None:
    """The settings cannot import the table, which stands above them."""
    assert tuple(DIALECTS) == DIALECT_NAMES


def read(dialect: str, *samples: str) -> ReplicaLoad:
    page = "".join((DATA / f"{sample}.txt").read_text() for sample in samples)
    return read_load(page, DIALECTS[dialect].load)


@pytest.mark.parametrize(
    ("dialect", "samples", "load"),
    [
        ("vllm", ["vllm-0.4"], ReplicaLoad(0, 0, 0.0, None, 0, 7)),
        ("vllm", ["vllm-0.8"], ReplicaLoad(0, 0, 0.0, None, None, None)),
        (
            "vllm",
            ["vllm-0.4", "vllm-counters"],
            ReplicaLoad(0, 0, 0.0, pytest.approx(64 / 117), 0, 7),
        ),
        ("vllm", ["vllm-0.10"], ReplicaLoad(None, None, pytest.approx(9.75010481363281e-06), 0.0)),
        ("vllm", ["vllm-0.32"], ReplicaLoad(0, 0, 0.0, pytest.approx(512 / 1122), 0, 166)),
        (
            "sglang",
            ["sglang"],
            ReplicaLoad(162, 2826, 0.28, pytest.approx(0.007507552643049313), None, 7_557_572),
        ),
        ("triton", ["triton-trtllm"], ReplicaLoad(1, 1, 0.4875, None, None, None)),
        ("triton", ["triton-vllm"], ReplicaLoad(None, None, None, None, None, 16)),
        ("tgi", ["tgi"], ReplicaLoad(0, 0, None, None, None, None)),
        ("llamacpp", ["llamacpp"], ReplicaLoad(0, 0, 0.491063, None, None, 3469)),
    ],
)
def test_the_load_is_read_from_each_servers_page(
    dialect: str, samples: list[str], load: ReplicaLoad
) -> None:
    assert read(dialect, *samples) == load


@pytest.mark.parametrize(
    ("dialect", "names"), [("trtllm", "trtllm-names"), ("llamacpp", "llamacpp-2026-names")]
)
def test_the_names_are_documented(dialect: str, names: str) -> None:
    """Where no page with values was found, or not of today."""
    documented = set((DATA / f"{names}.txt").read_text().split())
    used = {series.name for series in _series(dialect)} - {"llamacpp:kv_cache_usage_ratio"}
    assert used <= documented


def test_output_tokens_of_tgi_are_the_sum_of_a_documented_histogram() -> None:
    documented = set((DATA / "tgi-names.txt").read_text().split())
    assert {series.name.removesuffix("_sum") for series in _series("tgi")} == documented


def _series(dialect: str) -> list[Series]:
    names = DIALECTS[dialect].load
    figures = [getattr(names, field) for field in names.__dataclass_fields__]
    found: list[Series] = []
    for source in (source for figure in figures for source in figure):
        found += [source.part, source.whole] if isinstance(source, Share) else [source]
    return found


def test_counts_of_several_engines_are_added_and_the_fullest_cache_counts() -> None:
    page = (
        'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_running{engine="1"} 4.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.9\n'
    )
    load = read_load(page, DIALECTS["vllm"].load)
    assert (load.num_running, load.kv_usage_fraction) == (7, 0.9)


def test_new_names_win_over_those_that_they_replace() -> None:
    page = "vllm:gpu_cache_usage_perc 0.1\nvllm:kv_cache_usage_perc 0.7\n"
    assert read_load(page, DIALECTS["vllm"].load).kv_usage_fraction == 0.7


def test_a_name_is_no_other_name_that_begins_with_it() -> None:
    """vLLM has num_requests_waiting and num_requests_waiting_by_reason."""
    page = (
        'vllm:num_requests_waiting_by_reason{reason="capacity"} 5.0\n'
        'vllm:num_requests_waiting{model_name="a}b, c=\\"d"} 2.0 1700000000000\n'
    )
    assert read_load(page, DIALECTS["vllm"].load).num_waiting == 2


@pytest.mark.parametrize("value", ["NaN", "-1.0", "+Inf", "x", ""])
def test_what_is_no_number_counts_as_not_said(value: str) -> None:
    page = f"vllm:num_requests_running {value}\nvllm:kv_cache_usage_perc {value}\n"
    assert read_load(page, DIALECTS["vllm"].load) == ReplicaLoad()


def test_a_cache_that_nobody_has_asked_has_no_hit_rate() -> None:
    page = "vllm:prefix_cache_queries_total 0.0\nvllm:prefix_cache_hits_total 0.0\n"
    assert read_load(page, DIALECTS["vllm"].load).prefix_hit_fraction is None


@pytest.mark.parametrize("sample", ERRORS, ids=[sample["dialect"] for sample in ERRORS])
def test_each_servers_error_is_understood(sample: dict[str, object]) -> None:
    body = str(sample["body"]).encode()
    message, param = error_message_of(sample["dialect"], sample["status"], body)
    assert (message, param) == (sample["message"], sample["param"])
    assert is_context_error(message) == sample["is_context_error"]


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        (b'{"error":{"message":"m","param":"p"}}', "m", "p"),
        (b'{"error":{"message":"m","param":""}}', "m", None),
        (b'{"error":{"message":"m","http_status_code":422}}', "m", None),
        (b'{"error":"m"}', "m", None),
        (b'{"message":"m","param":"p","object":"error"}', "m", "p"),
        (b'{"detail":"Unknown model: x"}', "Unknown model: x", None),
        (
            b'{"detail":[{"loc":["body","messages",0,"role"],"msg":"a"},{"loc":[],"msg":"b"}]}',
            "a; b",
            "messages.0.role",
        ),
        (b"Failed to parse the body as JSON", "Failed to parse the body as JSON", None),
        (b'"m"', "m", None),
        (b"", "", None),
        (b"{}", "", None),
        (b"[]", "", None),
        (b'{"error":null}', "", None),
        (b'{"error":{"message":5}}', "", None),
        (b'{"detail":[5]}', "", None),
        (b'{"detail":{"a":1}}', "", None),
        (b"<html><body>502</body></html>", "", None),
        (b"\xff\xfe", "", None),
        (b"x" * 3000, "", None),
    ],
)  # fmt: skip
def test_every_shape_of_error_gives_its_message(
    body: bytes, message: str, param: str | None
) -> None:
    assert error_message_of("openai", 400, body) == (message, param)


def test_plain_text_behind_a_5xx_is_nobodys_message() -> None:
    """It is a proxy's, or a trace."""
    assert error_message_of("tgi", 502, b"upstream connect error") == ("", None)
