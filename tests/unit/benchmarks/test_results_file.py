"""Result files keep every value, one record per line, and equal documents give equal bytes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks import results_file
from benchmarks.results_file import (
    ResultFile,
    begin_or_resume,
    encode_result,
    read_result,
    refuse_dirty,
    render_result,
    sibling,
)
from paceline.foundation.results.source_state import SourceState

DOCUMENT = {
    "schema_version": 1,
    "environment": {"cpu_model": "a processor", "cores": 2},
    "empty": [],
    "numbers": [1, 2.5, None],
    "runs": [{"arm": "a", "tokens": [1, 2]}, {"arm": "é", "tokens": []}],
}


CLEAN = SourceState("abc", ())
DIRTY = SourceState("abc", (" M src/x.py", "?? y.py"))
RECORDED = {"environment": {"commit": "abc", "dirty": False}}


@pytest.fixture
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_file, "source_state", lambda: CLEAN)


@pytest.mark.usefixtures("_clean")
def test_the_folder_is_created_before_anything_is_measured(tmp_path: Path) -> None:
    result = ResultFile(tmp_path / "new" / "folder" / "x.json")
    assert result.path.parent.is_dir()


@pytest.mark.usefixtures("_clean")
def test_a_folder_that_cannot_be_created_ends_the_run_before_it_measures(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="file"):
        ResultFile(tmp_path / "file" / "x.json")


@pytest.mark.usefixtures("_clean")
@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_a_result_survives_a_round_trip(tmp_path: Path, name: str) -> None:
    document = DOCUMENT | RECORDED
    ResultFile(tmp_path / name).write(document)
    assert read_result(tmp_path / name) == document
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


def test_equal_documents_give_equal_compressed_bytes() -> None:
    """The gzip header holds neither a time nor the name of the file."""
    first, second = (encode_result(name, DOCUMENT) for name in ("a.json.gz", "b.json.gz"))
    assert first == second
    assert gzip.decompress(first).decode() == render_result(DOCUMENT)


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_files_made_from_a_result_have_its_name(name: str) -> None:
    assert sibling(Path("folder") / name, "-plot.svg") == Path("folder/x-plot.svg")


@pytest.mark.usefixtures("_clean")
@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_a_result_of_another_run_is_never_replaced(tmp_path: Path, ending: str) -> None:
    """Also if it appeared while this run measured."""
    path = tmp_path / f"x{ending}"
    first, second = ResultFile(path), ResultFile(path)
    first.write(RECORDED | {"run": 1})
    second.write(RECORDED | {"run": 2})
    third = ResultFile(path)
    assert [file.path.name for file in (first, second, third)] == [
        f"x{ending}",
        f"x-2{ending}",
        f"x-3{ending}",
    ]
    assert read_result(path)["run"] == 1
    assert read_result(second.path)["run"] == 2


@pytest.mark.usefixtures("_clean")
def test_a_run_replaces_what_it_wrote_before(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    file = ResultFile(path)
    for run in (1, 2):
        file.write(RECORDED | {"run": run})
    resumed = ResultFile.resume(path)
    resumed.write(RECORDED | {"run": 3})
    assert [found.name for found in tmp_path.iterdir()] == ["x.json"]
    assert read_result(path)["run"] == 3


BEGUN = RECORDED | {"plan": {"arms": ["a", "b"], "repeats": 4}, "runs": []}


@pytest.mark.usefixtures("_clean")
def test_a_resumed_run_completes_the_earlier_document(tmp_path: Path) -> None:
    path, earlier = tmp_path / "x.json", BEGUN | {"runs": [1]}
    ResultFile(path).write(earlier)
    more = BEGUN | {"plan": {"arms": ("a", "b"), "repeats": 6}, "environment": {"commit": "def"}}
    file, document = begin_or_resume(
        tmp_path / "other.json", path, more, same=["plan"], but_for=["repeats"]
    )
    assert document["runs"] == [1]
    assert document["environment"] == earlier["environment"]
    assert document["plan"]["repeats"] == 6
    file.write(document)
    assert read_result(path)["plan"]["repeats"] == 6
    assert [found.name for found in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.usefixtures("_clean")
def test_a_run_with_another_plan_cannot_complete_a_result(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    ResultFile(path).write(BEGUN)
    other = BEGUN | {"plan": {"arms": ["a"], "repeats": 4}}
    with pytest.raises(SystemExit, match=r"its plan has arms = \['a', 'b'\], and this run \['a'\]"):
        begin_or_resume(path, path, other, same=["plan"])


@pytest.mark.usefixtures("_clean")
def test_every_run_that_completes_a_result_is_named_in_it(tmp_path: Path) -> None:
    """The parts of a result may come from several commits and machines."""
    path = tmp_path / "x.json"
    begun = {"environment": {"commit": "first"}, "settings": {"times": 1}, "runs": []}
    begin_or_resume(path, None, begun, same=("settings",))[0].write(begun)
    for commit in ("second", "third"):
        now = {**begun, "environment": {"commit": commit}}
        file, document = begin_or_resume(path, path, now, same=("settings",))
        file.write(document)
    written = read_result(path)
    assert written["environment"] == {"commit": "first"}
    assert written["resumed_in"] == [{"commit": "second"}, {"commit": "third"}]


@pytest.mark.usefixtures("_clean")
def test_a_run_that_resumes_nothing_begins_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    ResultFile(path).write(BEGUN)
    file, document = begin_or_resume(path, None, BEGUN, same=["plan"])
    assert (file.path.name, document) == ("x-2.json", BEGUN)


@pytest.mark.usefixtures("_clean")
def test_a_result_without_its_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="environment has no commit"):
        ResultFile(tmp_path / "x.json").write({"environment": {"cpu_model": "a"}})


def test_uncommitted_changes_are_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_file, "source_state", lambda: DIRTY)
    with pytest.raises(SystemExit) as refused:
        ResultFile(tmp_path / "x.json")
    assert str(refused.value.code).startswith(
        "Error: 2 files differ from commit abc, such as src/x.py, so the result would not belong"
    )
    ResultFile(tmp_path / "x.json", allow_dirty=True)


def test_outside_of_a_checkout_nothing_is_refused() -> None:
    refuse_dirty(SourceState(None, None), allow_dirty=False)
