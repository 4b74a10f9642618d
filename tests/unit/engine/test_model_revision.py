"""The fingerprint changes with everything that changes answers, and with nothing else."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from paceline.runtime.engine.model_revision import revision_of_folder

NUM_BYTES = 100_000


def write_tensors(path: Path, changed: str = "") -> None:
    """A safetensors file of two tensors; `changed` names the one whose numbers differ."""
    offsets = {"a": [0, NUM_BYTES], "b": [NUM_BYTES, 2 * NUM_BYTES]}
    tensors = {
        n: {"dtype": "U8", "shape": [NUM_BYTES], "data_offsets": offsets[n]} for n in offsets
    }
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    data = b"".join((b"\x02" if name == changed else b"\x01") * NUM_BYTES for name in offsets)
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"hidden_size": 8}')
    (folder / "tokenizer.json").write_text('{"model": {}}')
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "README.md").write_text("A model.")
    write_tensors(folder / "model.safetensors")
    return folder


def test_a_copy_is_the_same_revision(folder: Path, tmp_path: Path) -> None:
    before = revision_of_folder(folder)
    shutil.copytree(folder, tmp_path / "copy")
    (folder / "README.md").write_text("A good model.")
    assert revision_of_folder(folder) == revision_of_folder(tmp_path / "copy") == before
    assert len(before) == 16


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "chat_template.jinja"])
def test_another_configuration_tokenizer_or_template_is_another_revision(
    folder: Path, name: str
) -> None:
    before = revision_of_folder(folder)
    (folder / name).write_text("{}")
    assert revision_of_folder(folder) != before


@pytest.mark.parametrize("changed", ["a", "b"])
def test_new_weights_of_the_same_shapes_are_another_revision(folder: Path, changed: str) -> None:
    before = revision_of_folder(folder)
    write_tensors(folder / "model.safetensors", changed)
    assert revision_of_folder(folder) != before


@pytest.mark.parametrize("content", [b"", b"\x01" * 7, b"\xff" * 5000, b"\x01" * 5_000_000])
def test_weights_in_another_format_are_sampled_at_equal_distances(
    folder: Path, content: bytes
) -> None:
    (folder / "model.safetensors").unlink()
    weights = folder / "pytorch_model.bin"
    weights.write_bytes(content)
    before = revision_of_folder(folder)
    weights.write_bytes(bytes(len(content)))
    assert (revision_of_folder(folder) != before) == bool(content)


def test_options_that_change_answers_are_part_of_it(folder: Path) -> None:
    revisions = {revision_of_folder(folder, o) for o in ((), ("float16",), ("bfloat16",))}
    assert len(revisions) == 3


def test_a_folder_that_is_missing_has_no_revision(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no model folder"):
        revision_of_folder(tmp_path / "missing")
