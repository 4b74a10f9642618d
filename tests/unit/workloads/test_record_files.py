"""Files of records as people have them: marks, line ends, compression, arrays and tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from paceline.foundation.workloads import WorkloadError, load_prompt_file, load_trace
from paceline.foundation.workloads.record_files import read_file, read_json_records, read_records

TEXT = '{"prompt": "ä"}\n{"prompt": "b"}\n'


def values(path: Path) -> list[object]:
    return [value for _, value in read_records(path)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-16-le"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_byte_order_marks_and_line_ends_of_windows_are_read(
    tmp_path: Path, encoding: str, line_end: str
) -> None:
    mark = "\ufeff" if encoding in ("utf-16-be", "utf-16-le") else ""
    path = tmp_path / "prompts.jsonl"
    path.write_bytes((mark + TEXT.replace("\n", line_end)).encode(encoding))
    assert [prompt.text for prompt in load_prompt_file(path)] == ["ä", "b"]


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl.gz"
    path.write_bytes(gzip.compress(TEXT.encode("utf-8-sig")))
    assert [prompt.text for prompt in load_prompt_file(path)] == ["ä", "b"]
    path.write_bytes(gzip.compress(TEXT.encode())[:-9])
    with pytest.raises(WorkloadError, match="cannot read"):
        read_file(path)


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_holds_one_record_per_item(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps([{"prompt": "a"}, {"prompt": "b"}], indent=indent))
    assert [where for where, _ in read_json_records(path)] == [
        f"{path}, item 1",
        f"{path}, item 2",
    ]
    assert [prompt.text for prompt in load_prompt_file(path)] == ["a", "b"]


def test_values_may_be_broken_into_lines(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{\n  "at_s": 0,\n  "prompt": "a"\n}\n{\n  "at_s": 2, "prompt": "b"\n}\n')
    assert values(path) == [{"at_s": 0, "prompt": "a"}, {"at_s": 2, "prompt": "b"}]


def test_a_broken_array_names_a_line(tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    path.write_text('[\n  {"prompt": "a"},\n')
    with pytest.raises(WorkloadError, match="line 1 is not JSON"):
        list(read_json_records(path))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", ", "])
@pytest.mark.parametrize("name", ["trace.csv", "trace.CSV", "trace.tsv", "trace"])
def test_a_table_is_known_by_its_content(tmp_path: Path, delimiter: str, name: str) -> None:
    path = tmp_path / name
    rows = [("at_s", "input_length", "output_length"), ("0", "9", "2"), ("1.5", "8", "3")]
    path.write_text("\r\n".join(delimiter.join(row) for row in rows), encoding="utf-8-sig")
    trace = load_trace(path)
    assert [(e.due_s, e.input_tokens, e.output_tokens) for e in trace.entries] == [
        (0.0, 9, 2),
        (1.5, 8, 3),
    ]


def test_data_in_a_binary_form_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    path.write_bytes(b"PAR1\x15\x04")
    with pytest.raises(WorkloadError, match="is a Parquet file; write its rows as JSON lines"):
        read_file(path)


def test_a_cell_that_is_too_long_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "prompts.csv"
    path.write_text(f"prompt,task\na,b\n{'x' * 131_073},b\n")
    with pytest.raises(WorkloadError, match=r"prompts\.csv, line 3 is not a row of a table: field"):
        values(path)


@pytest.mark.parametrize("start", ["", '{"prompt": "a"}\n', '{"prompt":\n'])
def test_json_that_nests_too_deep_is_refused(tmp_path: Path, start: str) -> None:
    path = tmp_path / "prompts.json"
    path.write_text(start + "[" * 200_000)
    with pytest.raises(WorkloadError, match=r"prompts\.json, line \d is not JSON"):
        values(path)


@pytest.mark.parametrize(
    ("cell", "name"), [("[" * 100_000, "hash_ids"), ("1" * 5000, "input_length")]
)
def test_a_cell_that_cannot_be_read_is_refused(tmp_path: Path, cell: str, name: str) -> None:
    row = {"at_s": "0", "input_length": "9", "output_length": "2", "hash_ids": "[1]", name: cell}
    path = tmp_path / "trace.csv"
    path.write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    with pytest.raises(WorkloadError, match=f"line 2: {name} is "):
        load_trace(path)
