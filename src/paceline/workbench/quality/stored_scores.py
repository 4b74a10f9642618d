"""Scores and answers of a comparison on disk, so that a repeated command continues."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from paceline.foundation.answer_quality.divergence import NUM_NAMED, Scores
from paceline.foundation.answer_quality.values import Text

_FIELDS = ("ids", "logprobs", "token_logprobs", "best")


class WorkFolder:
    """Files named after what they hold: a file that exists is complete and belongs to its name."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._path = path

    def answers(self, revision: str) -> Path:
        """The file of a model's answers; `AnswerFile` checks what it holds."""
        return self._path / f"answers-{revision}.jsonl"

    def scores(
        self, texts: Sequence[Text], model: Sequence[str], make: Callable[[], Mapping[str, Scores]]
    ) -> Mapping[str, Scores]:
        """The scores of the texts, from disk or made now; `model` says what computes them."""
        rows = [[text.key, text.prompt_ids, text.token_ids] for text in texts]
        content = json.dumps([NUM_NAMED, list(model), rows])
        path = self._path / f"scores-{hashlib.sha256(content.encode()).hexdigest()[:16]}.npz"
        if path.exists():
            return _read(path, texts)
        made = make()
        _write(path, [made[text.key] for text in texts])
        return made


def _write(path: Path, scores: Sequence[Scores]) -> None:
    arrays = {name: np.concatenate([getattr(one, name) for one in scores]) for name in _FIELDS}
    temporary = path.with_suffix(".tmp.npz")
    np.savez_compressed(temporary, **arrays)
    os.replace(temporary, path)


def _read(path: Path, texts: Sequence[Text]) -> dict[str, Scores]:
    with np.load(path) as file:
        arrays = {name: file[name] for name in _FIELDS}
    ends = np.cumsum([len(text.token_ids) for text in texts])[:-1]
    parts = {name: np.split(array, ends) for name, array in arrays.items()}
    return {
        text.key: Scores(**{name: parts[name][number] for name in _FIELDS})
        for number, text in enumerate(texts)
    }
