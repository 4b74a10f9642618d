"""Rows of tokens with a loss weight per token, made from the source files.

`prepare` writes a folder once: the tokenizer, the raw source as one stream, and the tasks packed
whole into rows. A batch depends on the seed and the step alone, so a resumed run gets the same
batches as an uninterrupted one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from demo_recipe import corpus, tasks
from demo_recipe.tokenizer import (
    END_OF_TEXT,
    answer_head,
    encode_message,
    load_tokenizer,
    train_tokenizer,
)

ROW_TOKENS = 1024
QUESTION_WEIGHT = 0.1
"""Loss weight of a question's tokens. They teach source; the answers matter more."""
SHORT_TOKENS = 256
"""Length of question and answer in the first lessons: copying is learned on short texts first."""
RENAME_ROUNDS = 2
TASK_ROUNDS = 3
"""Rounds of task building over all functions; each round renames to other names."""

Tokens = npt.NDArray[np.uint16]
Weights = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """Rows of tokens and weights, both (num_rows, ROW_TOKENS + 1); weight 0 is padding."""

    tokens: Tokens
    weights: Weights


class Dataset:
    """Memory-mapped rows of five kinds, which `batch` mixes in the requested fractions.

    `source` is the raw stream, `tasks` the packed questions with their true answers, `short` the
    short ones among them, `renames` more renames of plain words, and `own` questions with the
    target's answers (after `write_rows` has written them).
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer = load_tokenizer(folder)
        self._source = np.load(folder / "source.npy", mmap_mode="r")
        self._rows = {
            name: (
                np.load(folder / f"{name}.npy", mmap_mode="r"),
                np.load(folder / f"{name}_weights.npy", mmap_mode="r"),
            )
            for name in ("tasks", "short", "renames", "own")
            if (folder / f"{name}.npy").exists()
        }

    def batch(
        self, seed: int, step: int, num_rows: int, shares: Mapping[str, float]
    ) -> TrainingBatch:
        """Rows of the kinds in `shares` (fractions of the rows); the rest is source."""
        rng = np.random.default_rng((seed, step))
        tokens = np.empty((num_rows, ROW_TOKENS + 1), np.uint16)
        weights = np.ones((num_rows, ROW_TOKENS + 1), np.float16)
        for row in range(num_rows):
            draw = rng.random()
            for name, share in shares.items():
                if draw < share:
                    kind_tokens, kind_weights = self._rows[name]
                    picked = int(rng.integers(len(kind_tokens)))
                    tokens[row], weights[row] = kind_tokens[picked], kind_weights[picked]
                    break
                draw -= share
            else:
                start = int(rng.integers(len(self._source) - ROW_TOKENS - 1))
                tokens[row] = self._source[start : start + ROW_TOKENS + 1]
        return TrainingBatch(tokens, weights)


def prepare(folder: Path, seed: int = 0) -> None:
    """Read the library, train the tokenizer, write the rows and the facts about them."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [f for f in corpus.read_standard_library() if not corpus.is_held_out(f.name)]
    rng = random.Random(seed)
    rng.shuffle(files)
    tokenizer = train_tokenizer(f.text for f in files if not f.is_test)
    tokenizer.save(str(folder / "tokenizer.json"))
    functions = [f for file in files for f in tasks.functions_of(file)]
    num_examples = _write_tasks(folder, tokenizer, functions, rng)
    num_tokens = _write_source(folder, tokenizer, files)
    facts = {
        "num_files": len(files),
        "num_bytes": sum(len(f.text.encode()) for f in files),
        "num_functions": len(functions),
        "num_source_tokens": num_tokens,
        "num_task_examples": num_examples,
    }
    (folder / "facts.json").write_text(json.dumps(facts, indent=2) + "\n")


def _write_source(folder: Path, tokenizer: Tokenizer, files: list[corpus.SourceFile]) -> int:
    """Write library code twice and test code once, because tests are more repetitive."""
    stream: list[int] = []
    for file in files:
        ids = [*tokenizer.encode(file.text, add_special_tokens=False).ids, END_OF_TEXT]
        stream.extend(ids if file.is_test else ids * 2)
    np.save(folder / "source.npy", np.asarray(stream, np.uint16))
    return len(stream)


def _write_tasks(
    folder: Path, tokenizer: Tokenizer, functions: list[tasks.Function], rng: random.Random
) -> int:
    vocabulary = tasks.identifier_vocabulary(functions)
    examples = (
        example
        for _ in range(TASK_ROUNDS)
        for example in tasks.build_examples(functions, rng, vocabulary=vocabulary)
    )
    dialogues = [_encode(tokenizer, example) for example in examples]
    write_rows(folder, "short", (d for d in dialogues if len(d[0]) + len(d[1]) <= SHORT_TOKENS))
    num_written = write_rows(folder, "tasks", dialogues)
    rng.shuffle(functions)
    renames = (tasks.build_plain_rename(f, rng) for _ in range(RENAME_ROUNDS) for f in functions)
    rename_dialogues = (_encode(tokenizer, e) for e in renames if e is not None)
    return num_written + write_rows(folder, "renames", rename_dialogues)


def _encode(tokenizer: Tokenizer, example: tasks.Example) -> tuple[list[int], list[int]]:
    head = answer_head(tokenizer)
    question = encode_message(tokenizer, "user", example.question) + head
    return question, encode_message(tokenizer, "assistant", example.answer)[len(head) :]


def write_rows(folder: Path, kind: str, pairs: Iterable[tuple[list[int], list[int]]]) -> int:
    """Pack (question ids, answer ids) whole into rows of `kind`; returns the number written.

    Pairs longer than a row are skipped. The last token of an answer (the line break after a
    message) has weight 0, because no model generates it.
    """
    rows: list[npt.NDArray[np.uint16]] = []
    row_weights: list[npt.NDArray[np.float16]] = []
    ids: list[int] = []
    weights: list[float] = []
    num_pairs = 0
    for question, answer in pairs:
        if len(question) + len(answer) > ROW_TOKENS:
            continue
        if len(ids) + len(question) + len(answer) > ROW_TOKENS + 1:
            rows.append(_padded(ids, END_OF_TEXT, np.dtype(np.uint16)))
            row_weights.append(_padded(weights, 0, np.dtype(np.float16)))
            ids, weights = [], []
        ids += question + answer
        weights += [QUESTION_WEIGHT] * len(question) + [1.0] * (len(answer) - 1) + [0.0]
        num_pairs += 1
    np.save(folder / f"{kind}.npy", np.stack(rows))
    np.save(folder / f"{kind}_weights.npy", np.stack(row_weights))
    return num_pairs


def _padded(
    values: list[int] | list[float], filler: float, dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    row = np.full(ROW_TOKENS + 1, filler, dtype)
    row[: len(values)] = values
    return row
