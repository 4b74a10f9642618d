"""The folder of one training: what it is of, whether it may continue, and whether it fits the disk.

settings.json     what the training depends on, written first
answers.jsonl     the target's answers
state.pt          checkpoint
log.jsonl         loss per step
states.bin        the target's hidden states of the answers, for a head
draft/            the new draft, with paceline-provenance.json
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from paceline.foundation.models.values import DraftError
from paceline.foundation.results.files import write_document
from paceline.workbench.draft.training.provenance import FILE_NAME

_SETTINGS = "settings.json"
_ANSWERS = "answers.jsonl"
_STATE = "state.pt"
_HIDDEN = "states.bin"
_DRAFT = "draft"
_STATE_COPIES = 2 * 3 * 4
"""Bytes per weight of a checkpoint and the one that replaces it: float32 weights and at most two
values of an optimizer for each."""
_DRAFT_COPIES = 2 * 2
"""The bfloat16 draft and the one that it replaces."""
_ANSWER_BYTES_PER_TOKEN = 8
_MARGIN = 1.1


def open_work_folder(folder: Path, settings: Mapping[str, Any], *, resume: bool) -> None:
    """Create the folder, or check that it holds the same training and may be continued.

    DraftError says which setting differs, that --resume is missing, or that nothing can be written.
    """
    path = folder / _SETTINGS
    wanted = json.loads(json.dumps(settings))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    except (OSError, ValueError) as error:
        raise DraftError(f"cannot use {folder}: {error}") from error
    if found is None:
        # A killed process may leave the scratch file of its settings.
        if any(not path.name.startswith(f".{_SETTINGS}.") for path in folder.iterdir()):
            raise DraftError(
                f"{folder} is not empty and holds no training; name an empty or a new folder"
            )
        write_result(path, wanted)
        return
    if not resume:
        raise DraftError(
            f"{folder} holds a training; add --resume to continue it, or name another folder"
        )
    for name in sorted({*found, *wanted}):
        if found.get(name) != wanted.get(name):
            raise DraftError(
                f"{folder} holds a training with {name} {found.get(name)!r}, and now it is "
                f"{wanted.get(name)!r}; repeat the options of the first run, or name another folder"
            )


def check_disk(
    folder: Path, num_parameters: int, num_answer_tokens: int, *, num_state_bytes: int
) -> None:
    """Raise DraftError unless the disk of `folder` has room for what the training writes.

    `num_state_bytes`: of the target's hidden states. Creates nothing; `folder` need not exist.
    """
    needed = _MARGIN * (
        num_parameters * (_STATE_COPIES + _DRAFT_COPIES)
        + num_answer_tokens * _ANSWER_BYTES_PER_TOKEN
        + num_state_bytes
    )
    written = (folder / _ANSWERS, folder / _STATE, folder / _HIDDEN, *(folder / _DRAFT).glob("*"))
    needed -= sum(path.stat().st_size for path in written if path.is_file())
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise DraftError(
            f"the disk of {folder} has {_gigabytes(free)} free, and the training needs "
            f"{_gigabytes(needed)} for checkpoints, the draft and the answers; free space, or name "
            "a folder on another disk with --out"
        )


def write_result(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document whole; DraftError if the disk refuses it."""
    try:
        write_document(path, document)
    except OSError as error:
        raise DraftError(
            f"cannot write {path}: {error.strerror}. Free space and repeat the command with "
            "--resume"
        ) from error


def write_draft(
    save: Callable[[Path], None],
    tokenizer_folder: Path | None,
    folder: Path,
    provenance: Mapping[str, Any],
) -> None:
    """Write what `save` writes, with the tokenizer's files if any; replaces the folder whole.

    `provenance` is in it from the start, so that no draft is without.
    """
    from safetensors import SafetensorError

    scratch = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir()
        save(scratch)
        for path in () if tokenizer_folder is None else tokenizer_folder.iterdir():
            if path.is_file() and not _is_of_the_weights(path) and path.suffix in _TEXTS:
                shutil.copyfile(path, scratch / path.name)
        write_document(scratch / FILE_NAME, provenance)
        for path in scratch.iterdir():
            # safetensors creates files that only their owner can read.
            path.chmod(0o644)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(scratch, folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise DraftError(
            f"cannot write the draft to {folder}: {error}. Free space and repeat the command with "
            "--resume"
        ) from error


_TEXTS = (".json", ".jinja", ".model", ".txt", ".tiktoken")
_OF_THE_MODEL = ("config.json", FILE_NAME)


def _is_of_the_weights(path: Path) -> bool:
    return path.name in _OF_THE_MODEL or path.name.endswith(".index.json")


def _gigabytes(value: float) -> str:
    return f"{value / 1e9:.2f} GB"
