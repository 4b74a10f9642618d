"""The unit of a trace's times: stated by the file's form, checked against its duration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.workloads import TimeUnit, Trace, WorkloadError, load_trace

LENGTHS = {"input_length": 600, "output_length": 4}
BLOCKS = {**LENGTHS, "hash_ids": [1, 2]}
"""Two blocks of 512 tokens."""
BAILIAN = {"chat_id": 1, "parent_chat_id": -1, "type": "text", "turn": 1}
UNIX = 1_764_500_000


def load(tmp_path: Path, rows: list[dict[str, Any]], **settings: Any) -> Trace:
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return load_trace(path, **settings)


def at(times: list[float], fields: dict[str, Any], name: str = "timestamp") -> list[dict[str, Any]]:
    return [{name: time, **fields} for time in times]


def dues(trace: Trace) -> list[float | None]:
    return [None if e.due_s is None else round(e.due_s, 6) for e in trace.entries]


@pytest.mark.parametrize(
    ("rows", "form", "unit"),
    [
        (at([27_000, 28_500, 30_000], BLOCKS), "Mooncake", "ms"),
        # Blocks of 64 tokens: another size, but of no other form.
        (at([7, 1507, 3007], {**BLOCKS, "input_length": 100}), "Mooncake", "ms"),
        (at([27.0, 28.5, 30.0], {**LENGTHS, **BAILIAN}), "Qwen-Bailian", "s"),
        (
            at([27, 28.5, 30], {"Request tokens": 9, "Response tokens": 2}, "Timestamp"),
            "BurstGPT",
            "s",
        ),
        (
            at([27, 28.5, 30], {"num_prefill_tokens": 9, "num_decode_tokens": 2}, "arrived_at"),
            "Vidur",
            "s",
        ),
        (at([27, 28.5, 30], LENGTHS, "at_s"), None, "s"),
        (at([UNIX, UNIX + 1.5, UNIX + 3], LENGTHS), None, "s"),
        (at([UNIX * 1000, UNIX * 1000 + 1500, UNIX * 1000 + 3000], LENGTHS), None, "ms"),
        (at([UNIX * 10**6, UNIX * 10**6 + 1_500_000, (UNIX + 3) * 10**6], LENGTHS), None, "us"),
        (at([UNIX * 10**9, UNIX * 10**9 + 1_500_000_000, (UNIX + 3) * 10**9], LENGTHS), None, "ns"),
        (at([UNIX, UNIX + 1.5, UNIX + 3], {**LENGTHS, **BAILIAN}), "Qwen-Bailian", "s"),
        (at([UNIX, UNIX + 1.5, UNIX + 3], {"prompt": "a"}), None, "s"),
        (at([UNIX * 1000 + n for n in (0, 1500, 3000)], BLOCKS), "Mooncake", "ms"),
    ],
)
def test_every_unit_gives_the_recorded_times(
    tmp_path: Path, rows: list[dict[str, Any]], form: str | None, unit: str
) -> None:
    """The same three seconds, with the middle request after half of them."""
    trace = load(tmp_path, rows)
    assert dues(trace) == [0.0, 1.5, 3.0]
    assert (trace.form, trace.time_unit) == (form, unit)
    assert trace.duration_s == pytest.approx(3.0)


@pytest.mark.parametrize(
    "rows",
    [
        at([0, 1.5, 3], LENGTHS),
        at([0, 1500, 3000], LENGTHS),
        at([0, 1500, 3000], {"prompt": "a"}),
        at([0, 1, 3], {"ContextTokens": 9, "GeneratedTokens": 2}, "TIMESTAMP"),
        # Mooncake's times have no fractions, and its blocks have 512 tokens.
        at([0.25, 1.5, 3.75], BLOCKS),
        at([0, 1500, 3000], {"input_length": 40, "output_length": 4, "hash_ids": [1, 2, 3]}),
    ],
)
def test_a_unit_that_nothing_states_is_asked_for(
    tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    with pytest.raises(WorkloadError, match=r"nothing in the file states its unit.*--trace-unit"):
        load(tmp_path, rows)
    for unit in TimeUnit:
        duration_s = max(row.get("timestamp", row.get("TIMESTAMP")) for row in rows) * unit.value
        start_s = min(row.get("timestamp", row.get("TIMESTAMP")) for row in rows) * unit.value
        trace = load(tmp_path, rows, unit=unit)
        assert trace.duration_s == pytest.approx(duration_s - start_s)
        assert trace.time_unit == unit.label


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        # A copy of Mooncake's form in seconds: 1,000 requests/s.
        (at([0, 1, 2, 3], BLOCKS), r"read in ms, as in the traces of Mooncake.* in 0\.003 s, 1000"),
        # The same with one request in 12 s, for an hour: 83 requests/s.
        (at([*range(0, 3600, 12)], BLOCKS), r"read in ms, as in .* Mooncake.* in 3\.588 s, 83"),
        # A slice of a trace in milliseconds, with the first request after 11 days.
        (
            at([1_000_000_000 + 250 * n for n in range(300)], BLOCKS),
            r"in ms in .* Mooncake, but .* 1000000000, is Unix time in s.* take 74\.75 s if they "
            r"are ms, or 7\.475e\+04 s if they are s; give the unit",
        ),
        (at([UNIX * 1000, UNIX * 1000 + 1500], {**LENGTHS, **BAILIAN}), "is Unix time in ms"),
        # A copy of BurstGPT's form in milliseconds: one request in 20 minutes.
        (
            at([0, 1_200_000, 2_400_000], {"Request tokens": 9, "Response tokens": 2}, "Timestamp"),
            r"read in s, as in the traces of BurstGPT.* in 2\.4e\+06 s",
        ),
        # Bailian's form in milliseconds.
        (at([0, 2_000_000, 4_000_000], {**LENGTHS, **BAILIAN}), "as in the traces of Qwen-Bailian"),
        # A slice of a trace in milliseconds that began 12 days before looks like Unix time.
        (at([1_036_800_000, 1_036_801_500, 1_036_803_000], LENGTHS), "as Unix time"),
    ],
)
def test_a_duration_that_speaks_against_the_form_is_refused(
    tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        load(tmp_path, rows)
    assert load(tmp_path, rows, unit=TimeUnit.S).time_unit == "s"


def test_a_table_may_hold_lists_of_blocks(tmp_path: Path) -> None:
    path = tmp_path / "mooncake.csv"
    header = "timestamp,input_length,output_length,hash_ids"
    path.write_text(f'{header}\n0,600,4,"[1, 2]"\n1500,700,4,"[1, 3]"\n')
    trace = load_trace(path)
    assert (trace.form, trace.duration_s) == ("Mooncake", 1.5)
    assert [entry.block_ids for entry in trace.entries] == [(1, 2), (1, 3)]


def test_requests_at_one_time_need_no_unit(tmp_path: Path) -> None:
    assert dues(load(tmp_path, at([7, 7, 7], LENGTHS))) == [0.0, 0.0, 0.0]


def test_dates_and_numbers_in_one_trace_are_refused(tmp_path: Path) -> None:
    rows = [{"timestamp": 5, **LENGTHS}, {"timestamp": "2024-05-10 00:00:01", **LENGTHS}]
    with pytest.raises(WorkloadError, match=r"line 1: timestamp is a number, but .* in .*line 2"):
        load(tmp_path, rows)


@pytest.mark.parametrize(
    ("moments", "seconds"),
    [
        (["2024-05-10 00:00:00.009930+00:00", "2024-05-10 00:00:00.117803+00:00"], 0.107873),
        (["2023-11-16 18:17:03.9799600", "2023-11-16 18:17:04.0319600"], 0.052),
        (["2024-05-10T00:00:00Z", "2024-05-10T00:00:01Z"], 1.0),
        (["2024-05-10 02:00:00+02:00", "2024-05-10 00:00:01+00:00"], 1.0),
    ],
)
def test_dates_are_read_as_azure_and_others_write_them(
    tmp_path: Path, moments: list[str], seconds: float
) -> None:
    rows = [{"TIMESTAMP": moment, "ContextTokens": 9, "GeneratedTokens": 2} for moment in moments]
    assert load(tmp_path, rows).duration_s == pytest.approx(seconds, abs=1e-6)


def test_blocks_have_the_size_that_the_form_or_the_lengths_state(tmp_path: Path) -> None:
    mooncake = load(tmp_path, at([0, 1500], BLOCKS))
    assert {entry.block_tokens for entry in mooncake.entries} == {512}
    bailian = load(tmp_path, at([0, 1.5], {**BLOCKS, **BAILIAN, "input_length": 30}))
    assert {entry.block_tokens for entry in bailian.entries} == {16}
    # 100 tokens in two blocks: 64 is the only power of two, whatever the unit is.
    own = {"input_length": 100, "output_length": 4, "hash_ids": [1, 2]}
    other = load(tmp_path, at([0, 1.5], own, "at_s"))
    assert {entry.block_tokens for entry in other.entries} == {64}
    given = load(tmp_path, at([0, 1.5], own, "at_s"), block_tokens=32)
    assert {entry.block_tokens for entry in given.entries} == {32}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"Request tokens": 9, "Response tokens": 0}, "Timestamp"),
        ({"Request tokens": 0, "Response tokens": 0}, "Timestamp"),
        ({"Request tokens": 9, "Response tokens": None}, "Timestamp"),
        ({"Request tokens": 9.0, "Response tokens": 0.0}, "Timestamp"),
    ],
)
def test_requests_without_tokens_are_left_out_and_counted(
    tmp_path: Path, fields: dict[str, Any], name: str
) -> None:
    kept = at([10, 12], {"Request tokens": 9.0, "Response tokens": 3}, name)
    trace = load(tmp_path, [*at([5], fields, name), *kept, *at([13], fields, name)])
    assert trace.num_left_out == 2
    # What is left out also took its time.
    assert dues(trace) == [5.0, 7.0]
    assert trace.duration_s == 8.0


@pytest.mark.parametrize(
    ("name", "scale", "unit"),
    [("timestamp_ms", 1000, "ms"), ("arrival_s", 1, "s"), ("arrival_time_us", 10**6, "us")],
)
def test_a_field_that_ends_with_its_unit_states_it(
    tmp_path: Path, name: str, scale: int, unit: str
) -> None:
    lengths = {"prompt_tokens": 9, "completion_tokens": 2}
    trace = load(tmp_path, at([2 * scale, 3 * scale], lengths, name))
    assert (dues(trace), trace.time_unit) == ([0.0, 1.0], unit)


@pytest.mark.parametrize(
    "fields",
    [
        {"text_input": "a"},
        {"text": "a"},
        {"payload": {"model": "m", "messages": [{"role": "user", "content": "a"}]}},
    ],
)
def test_texts_of_aiperf_are_sent_as_they_are(tmp_path: Path, fields: dict[str, Any]) -> None:
    trace = load(tmp_path, [{"timestamp": 5, "output_length": 7, **fields}])
    prompt = trace.entries[0].prompt(0, None)
    assert prompt.messages == ({"role": "user", "content": "a"},)
    assert prompt.max_tokens == 7


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"payload": {"prompt": "a", "max_token": 3}}, "payload: max_token is unknown .* max_tok"),
        ({"payload": {"prompt": "a"}, "outputlength": 3}, "outputlength is unknown"),
        (
            {"payload": {"prompt": "a"}, "session_ids": "s"},
            "session_ids is unknown and .* session_id",
        ),
        ({"input_length": 4, "output_length": 2, "hash_id": [1]}, "hash_id is unknown"),
        ({"input_length": 4, "output_length": 2, "sessionid": "a"}, "sessionid is unknown"),
    ],
)
def test_a_misspelt_field_of_a_record_is_refused(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    with pytest.raises(WorkloadError, match=f"line 1.*{message}"):
        load(tmp_path, [{"timestamp": 5, **row}])


def test_further_columns_of_traces_are_passed_over(tmp_path: Path) -> None:
    burst = {"Timestamp": 5, "Model": "m", "Request tokens": 4, "Response tokens": 2}
    burst |= {"Total tokens": 6, "Log Type": "x", "Session ID": "1", "Elapsed time": 3}
    assert len(load(tmp_path, [burst]).entries) == 1
    mooncake = {"timestamp": 5, "input_length": 4, "output_length": 2, "hash_ids": [1]}
    mooncake |= {"chat_id": 3, "type": "text", "turn": 1, "total_tokens": 6}
    assert len(load(tmp_path, [mooncake]).entries) == 1
    body = {"model": "m", "prompt": "a", "temperature": 1, "min_tokens": 2, "stream": True}
    row = {"timestamp": 5, "output_length": 2, "input_length": 3, "payload": body}
    assert len(load(tmp_path, [row]).entries) == 1


@pytest.mark.parametrize("name", ["text_input", "text"])
def test_the_limit_beside_a_text_counts_and_unknown_fields_are_refused(
    tmp_path: Path, name: str
) -> None:
    row = {"timestamp": 5, "type": "mooncake_trace", "max_tokens": 7, name: "a"}
    assert load(tmp_path, [row]).entries[0].prompt(0, None).max_tokens == 7
    with pytest.raises(WorkloadError, match=r"line 1: max_token is unknown.*max_tokens"):
        load(tmp_path, [{"timestamp": 5, "max_token": 7, name: "a"}])
    with pytest.raises(WorkloadError, match="line 1: image is unknown"):
        load(tmp_path, [{"timestamp": 5, "image": "x.png", name: "a"}])
