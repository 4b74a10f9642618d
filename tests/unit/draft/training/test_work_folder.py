"""The folder of a training: new, continued, or refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from safetensors import SafetensorError

from paceline.foundation.models.values import DraftError
from paceline.workbench.draft.training import work_folder
from paceline.workbench.draft.training.work_folder import check_disk, open_work_folder, write_draft

SETTINGS = {"loss": "tv", "temperatures": (0.0, 1.0)}


def test_a_training_continues_only_when_asked_and_with_its_own_settings(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "out"
    open_work_folder(folder, SETTINGS, resume=False)
    open_work_folder(folder, SETTINGS, resume=True)
    with pytest.raises(DraftError, match="add --resume"):
        open_work_folder(folder, SETTINGS, resume=False)
    with pytest.raises(DraftError, match="with loss 'tv', and now it is 'forward-kl'"):
        open_work_folder(folder, {**SETTINGS, "loss": "forward-kl"}, resume=True)


def test_resume_in_a_new_folder_begins_there(tmp_path: Path) -> None:
    open_work_folder(tmp_path / "out", SETTINGS, resume=True)
    assert (tmp_path / "out" / "settings.json").is_file()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DraftError, match="is not empty and holds no training"):
        open_work_folder(tmp_path, SETTINGS, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_scratch_file_of_a_killed_process_does_not_lock_the_folder(tmp_path: Path) -> None:
    (tmp_path / ".settings.json.k1ll3d").write_text("{")
    open_work_folder(tmp_path, SETTINGS, resume=False)
    assert (tmp_path / "settings.json").is_file()


def test_a_disk_that_fills_up_is_an_error_that_says_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the settings or the provenance, and while the weights are written."""

    def refuse(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    def refuse_weights(folder: Path) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(work_folder, "write_document", refuse)
    with pytest.raises(DraftError, match=r"settings\.json: No space left.*--resume"):
        open_work_folder(tmp_path / "out", SETTINGS, resume=False)
    with pytest.raises(DraftError, match=r"No space left.*--resume"):
        write_draft(refuse_weights, tmp_path, tmp_path / "draft", {})
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_disk_without_room_is_refused_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1M weights: 24 bytes each for two checkpoints and 4 for two drafts; 1M answer tokens of 8
    bytes, and 100 MB of hidden states where a head reads them; a tenth more."""

    def set_free(free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))

    set_free(39_600_001)
    check_disk(tmp_path, 1_000_000, 1_000_000, num_state_bytes=0)
    with pytest.raises(DraftError, match=r"the training needs 0.15 GB"):
        check_disk(tmp_path, 1_000_000, 1_000_000, num_state_bytes=100_000_000)
    set_free(39_599_000)
    with pytest.raises(DraftError, match=r"0.04 GB free, and the training needs 0.04 GB"):
        check_disk(tmp_path, 1_000_000, 1_000_000, num_state_bytes=0)
    (tmp_path / "state.pt").write_bytes(b"0" * 1001)
    check_disk(tmp_path, 1_000_000, 1_000_000, num_state_bytes=0)
