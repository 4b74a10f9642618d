"""Result files keep every value, one record per line, and equal documents give equal bytes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.results_file import read_result, render_result, sibling, write_result

DOCUMENT = {
    "schema_version": 1,
    "environment": {"cpu_model": "a processor", "cores": 2},
    "empty": [],
    "numbers": [1, 2.5, None],
    "runs": [{"arm": "a", "tokens": [1, 2]}, {"arm": "é", "tokens": []}],
}


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_a_result_survives_a_round_trip(tmp_path: Path, name: str) -> None:
    write_result(tmp_path / name, DOCUMENT)
    assert read_result(tmp_path / name) == DOCUMENT
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_keys_and_entries_of_top_level_lists_begin_lines() -> None:
    text = render_result(DOCUMENT)
    assert json.loads(text) == DOCUMENT
    assert text.splitlines()[0:4] == [
        "{",
        '"schema_version":1,',
        '"environment":{"cpu_model":"a processor","cores":2},',
        '"empty":[],',
    ]
    assert '{"arm":"a","tokens":[1,2]},' in text.splitlines()


def test_equal_documents_give_equal_compressed_bytes(tmp_path: Path) -> None:
    """The gzip header holds neither a time nor the name of the file."""
    first, second = tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    write_result(first, DOCUMENT)
    write_result(second, DOCUMENT)
    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()).decode() == render_result(DOCUMENT)


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_files_made_from_a_result_have_its_name(name: str) -> None:
    assert sibling(Path("folder") / name, "-plot.svg") == Path("folder/x-plot.svg")
