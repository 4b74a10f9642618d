"""The published traces, and traces in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.foundation.shifting_trace import find_trace, published_names
from paceline.foundation.workloads import WorkloadError, load_workload
from unit.shifting_trace.documents import document


def test_three_traces_are_published() -> None:
    assert published_names() == ("easy-hard-easy", "load-staircase", "mixed-chat")


@pytest.mark.parametrize("name", published_names())
def test_a_published_trace_runs_by_text_and_by_script(name: str) -> None:
    trace = find_trace(name)
    assert trace.name == name
    assert trace.description
    for category in trace.categories:
        prompts = load_workload(trace.text(category.name).workload).prompts(0)
        assert not any(prompt.turns for prompt in prompts)
        assert trace.script(category.name).acceptance


def test_the_published_hashes_do_not_change() -> None:
    """Results are comparable by them: a change of a published trace needs a new name."""
    assert {name: find_trace(name).sha256[-6:] for name in published_names()} == {
        "easy-hard-easy": "104e1e",
        "load-staircase": "ff565f",
        "mixed-chat": "fadbab",
    }


def test_files_of_json_and_yaml_are_read(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(document()))
    assert find_trace(str(path)).name == "small"
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert find_trace(str(path)).name == "small"
    (tmp_path / "small.yaml").write_text(json.dumps(document(), indent=2))
    assert find_trace(str(tmp_path / "small.yaml")) == find_trace(str(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.json", None, "it must be a file or one of the published traces easy-hard-easy"),
        ("a.json", "a: [", "is neither YAML nor JSON"),
        ("b.json", "3", "b.json holds int; it must be a JSON object"),
    ],
)
def test_refusals_of_files(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(WorkloadError, match=message):
        find_trace(str(tmp_path / name))
