"""Recorded traces: the forms of a line, their times, and refusals that name the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.foundation.workloads import FillerText, TimeUnit, WorkloadError, load_trace

FILLER = FillerText("abcdefghij" * 50, chars_per_token=2.0)


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_mooncake_lines_hold_milliseconds_lengths_and_shared_blocks(tmp_path: Path) -> None:
    path = write(
        tmp_path / "mooncake.jsonl",
        '{"timestamp": 27000, "input_length": 600, "output_length": 52, "hash_ids": [46, 47]}',
        '{"timestamp": 30000, "input_length": 700, "output_length": 3, "hash_ids": [46, 48]}',
    )
    trace = load_trace(path)
    assert [entry.due_s for entry in trace.entries] == [0.0, 3.0]
    assert (trace.form, trace.time_unit, trace.duration_s) == ("Mooncake", "ms", 3.0)
    assert trace.needs_filler
    first, second = (entry.prompt(n, FILLER) for n, entry in enumerate(trace.entries))
    assert (first.max_tokens, first.ignore_eos, first.due_s) == (52, True, 0.0)
    assert first.text is not None
    assert second.text is not None
    assert len(first.text) == 1200
    # One whole block of 512 tokens is shared, then the texts differ.
    assert first.text[:1024] == second.text[:1024]
    assert first.text[1024:] != second.text[1024:1200]


def test_azure_rows_hold_dates_and_lengths(tmp_path: Path) -> None:
    path = write(
        tmp_path / "azure.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:17:03.9799600,374,44",
        "2023-11-16 18:17:05.4799600,396,109",
    )
    trace = load_trace(path)
    entries = trace.entries
    assert (trace.form, trace.time_unit) == ("Azure", "date")
    assert [entry.due_s for entry in entries] == [0.0, pytest.approx(1.5)]
    assert [(e.input_tokens, e.output_tokens) for e in entries] == [(374, 44), (396, 109)]


def test_lines_with_text_hold_the_fields_of_prompts(tmp_path: Path) -> None:
    path = write(
        tmp_path / "own.jsonl",
        '{"at_s": 4.5, "prompt": "b", "task": "late"}',
        '{"at_s": 0.5, "messages": [{"role": "user", "content": "a"}], "max_tokens": 7}',
    )
    trace = load_trace(path, speed=2.0)
    assert (trace.form, trace.time_unit, trace.duration_s) == (None, "s", 4.0)
    assert not trace.needs_filler
    first, second = (entry.prompt(n, None) for n, entry in enumerate(trace.entries))
    assert (first.max_tokens, first.due_s, first.task) == (7, 0.0, "trace")
    assert (second.text, second.due_s, second.task) == ("b", 2.0, "late")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": "a"}', "line 1: the time is missing; give at_s"),
        ('{"at_s": 1, "timestamp": 2, "prompt": "a"}', "exclude each other"),
        ('{"at_s": -1, "prompt": "a"}', "at_s is -1; it must be at least 0"),
        ('{"at_s": "x", "prompt": "a"}', "at_s is 'x'; it must be a number"),
        ('{"timestamp": "noon", "prompt": "a"}', "timestamp is 'noon'; it must be a number or"),
        ('{"at_s": 1}', "the request is missing; give messages or prompt, or the lengths"),
        ('{"at_s": 1, "input_length": 3}', "output_tokens or "),
        ('{"at_s": 1, "input_length": -1, "output_length": 1}', "must be at least 0"),
        (
            '{"at_s": 1, "input_length": 0, "output_length": 1}',
            "none of its 1 requests has both input and output tokens",
        ),
        ('{"at_s": 1, "input_length": 1.5, "output_length": 1}', "must be a whole number"),
        (
            '{"at_s": 1, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}',
            "hash_ids is .*list of whole numbers",
        ),
        ('{"at_s": 1, "prompt": "a", "max_token": 1}', "max_token is unknown"),
        ("", "holds no request"),
        ("{", "line 1 is not JSON"),
    ],
)
def test_bad_lines_are_refused_with_their_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        load_trace(write(tmp_path / "bad.jsonl", line))


def test_csv_times_may_be_fractions(tmp_path: Path) -> None:
    path = write(tmp_path / "own.csv", "at_s,prompt,max_tokens", "0.5,1.5,8", "2.25e0,7,9")
    first, second = (entry.prompt(0, None) for entry in load_trace(path).entries)
    assert (first.due_s, first.text, first.max_tokens) == (0.0, "1.5", 8)
    assert (second.due_s, second.text, second.max_tokens) == (1.75, "7", 9)
    path = write(tmp_path / "ms.csv", "timestamp,input_length,output_length", "0.5,3,4", "1000,3,4")
    trace = load_trace(path, unit=TimeUnit.MS)
    assert [entry.due_s for entry in trace.entries] == [0.0, pytest.approx(0.9995)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("nan,3,4", "line 2: at_s is 'nan'; it must be a number"),
        ("inf,3,4", "line 2: at_s is 'inf'; it must be a number"),
        ("-0.5,3,4", "at_s is -0.5; it must be at least 0"),
        ("0.5,3.5,4", "input_length is 3.5; it must be a whole number"),
    ],
)
def test_bad_numbers_of_a_csv_file_are_refused(tmp_path: Path, row: str, message: str) -> None:
    path = write(tmp_path / "bad.csv", "at_s,input_length,output_length", row)
    with pytest.raises(WorkloadError, match=message):
        load_trace(path)


def test_a_csv_cell_that_is_no_number_is_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path / "azure.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:17:03,many,44",
    )
    with pytest.raises(WorkloadError, match="line 2: ContextTokens is 'many'; it must be a whole"):
        load_trace(path)
