"""Cost tables on disk."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.engine.calibration.identity import files_of
from paceline.runtime.engine.calibration.store import CostStore, StoredCosts

COSTS = StoredCosts(
    CostTable((1, 2), (0, 1), ((0.01, 0.02), (0.02, 0.03)), ((0.0, 0.01), (0.0, 0.02)), 256, 1e-6),
    "2026-11-29",
)
IDENTITY = {"target": "a", "cpu_ids": (0, 1)}


def test_a_saved_table_is_found_by_its_identity(tmp_path: Path) -> None:
    CostStore(tmp_path / "new" / "folder").save(IDENTITY, COSTS)
    store = CostStore(tmp_path / "new" / "folder")
    assert store.load(IDENTITY) == COSTS
    assert store.load({**IDENTITY, "target": "b"}) is None


def test_no_unfinished_file_is_left(tmp_path: Path) -> None:
    store = CostStore(tmp_path)
    store.save(IDENTITY, COSTS)
    store.save(IDENTITY, COSTS)
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_a_missing_folder_has_no_tables(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert CostStore(tmp_path / "none").load(IDENTITY) is None
    assert caplog.messages == []


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"identity": {}}', "3", "\x00"])
def test_an_unreadable_file_is_ignored_with_one_warning(
    content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = CostStore(tmp_path)
    store.save(IDENTITY, COSTS)
    [path] = tmp_path.iterdir()
    path.write_text(content)
    with caplog.at_level(logging.WARNING):
        assert store.load(IDENTITY) is None
    [message] = caplog.messages
    assert message.startswith(f"Costs: {path} is ignored")


@pytest.mark.parametrize(
    "change",
    [
        {"identity": {"target": "b"}},
        {"table": {"sizes": [1]}},
        {"table": None},
        {"table": {"sizes": 1}},
    ],
)
def test_a_file_of_another_engine_or_form_is_ignored(
    change: dict[str, object], tmp_path: Path
) -> None:
    store = CostStore(tmp_path)
    store.save(IDENTITY, COSTS)
    [path] = tmp_path.iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert store.load(IDENTITY) is None


def test_the_oldest_files_beyond_32_are_removed(tmp_path: Path) -> None:
    store = CostStore(tmp_path)
    for number in range(40):
        store.save({"target": number}, COSTS)
        for path in tmp_path.iterdir():
            stat = path.stat()
            os.utime(path, (stat.st_atime, stat.st_mtime - 1))
    assert len(list(tmp_path.iterdir())) == 32
    assert store.load({"target": 7}) is None
    assert store.load({"target": 8}) == COSTS


def test_new_weights_change_the_identity_of_a_model(tmp_path: Path) -> None:
    """By size or time of change; other files do not count."""
    (tmp_path / "model.safetensors").write_bytes(b"1234")
    (tmp_path / "README.md").write_text("about")
    [[name, num_bytes, _]] = before = files_of(tmp_path)
    assert (name, num_bytes) == ("model.safetensors", 4)
    os.utime(tmp_path / "model.safetensors", (1, 1))
    assert files_of(tmp_path) != before
    assert files_of(tmp_path / "a/model/on/a/hub") == []
