"""The identity of a folder is that of every number in it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from paceline.runtime.engine.model_revision import revision_of_folder
from paceline.workbench.quality.identity import identity_of_folder


def test_one_changed_number_is_another_model(tmp_path: Path) -> None:
    weights = torch.zeros(1000)
    found = []
    for first in (0.0, 1.0, 0.0):
        weights[0] = first
        save_file({"weight": weights}, tmp_path / "model.safetensors")
        found.append((identity_of_folder(tmp_path), revision_of_folder(tmp_path)))
    (one, sampled), (changed, also_sampled), (again, _) = found
    assert one == again != changed
    assert sampled == also_sampled, "the middle of the tensor is the same"


def test_the_configuration_belongs_to_it_and_other_files_do_not(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    before = identity_of_folder(tmp_path)
    (tmp_path / "README.md").write_text("a model")
    assert identity_of_folder(tmp_path) == before
    (tmp_path / "config.json").write_text('{"rope_theta": 1}')
    assert identity_of_folder(tmp_path) != before


def test_reading_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        identity_of_folder(tmp_path, stop)
