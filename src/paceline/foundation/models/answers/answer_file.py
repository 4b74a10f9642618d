"""The file of the target's answers: JSON lines, one per batch, after a header.

The header says what the answers are of; a file of other prompts, another target or another sampling
is refused. A line that was cut off by a crash or a full disk is dropped, the header too, so a batch
is on disk or absent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from paceline.foundation.models.values import Answer, DraftError, EncodedPrompt, Sampling


class AnswerFile:
    """Answers by the number of their batch; `append` writes through to the disk."""

    def __init__(
        self, path: Path, header: Mapping[str, Any], prompts: Sequence[EncodedPrompt]
    ) -> None:
        """Open or create the file. DraftError if it belongs to something else."""
        self._path = path
        self._header = json.loads(json.dumps(header))
        self._prompts = {prompt.key: prompt for prompt in prompts}
        self.batches: dict[int, list[Answer]] = {}
        if path.exists() and not self._has_cut_header():
            self._read()
        else:
            self._write_line(self._header, mode="wb")

    def append(self, batch: int, answers: Sequence[Answer]) -> None:
        """Add the answers of one batch."""
        rows = [[a.key, a.num_tokens, list(a.token_ids)] for a in answers]
        sampling = answers[0].sampling
        self._write_line(
            {
                "batch": batch,
                "sampling": [sampling.temperature, sampling.top_k, sampling.top_p],
                "answers": rows,
            }
        )
        self.batches[batch] = list(answers)

    def _has_cut_header(self) -> bool:
        """Whether the file is the beginning of this header's line, or empty."""
        line = _line_of(self._header)
        with self._path.open("rb") as file:
            found = file.read(len(line))
        return len(found) < len(line) and line.startswith(found)

    def _read(self) -> None:
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            header, *rows = (json.loads(line) for line in whole.splitlines())
        except ValueError as error:
            raise DraftError(
                f"{self._path} is not a file of answers ({error}); name another file"
            ) from error
        if header != self._header:
            raise DraftError(
                f"{self._path} has answers of another target, prompts or sampling "
                f"({_first_difference(header, self._header)}); name another file or folder, or "
                "remove it"
            )
        if len(whole) < len(content):
            os.truncate(self._path, len(whole))
        for row in rows:
            sampling = Sampling(*row["sampling"])
            self.batches[row["batch"]] = [
                self._prompts[key].answered(sampling, token_ids, num_tokens)
                for key, num_tokens, token_ids in row["answers"]
            ]

    def _write_line(self, value: Mapping[str, Any], mode: Literal["ab", "wb"] = "ab") -> None:
        try:
            with self._path.open(mode) as file:
                file.write(_line_of(value))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DraftError(f"cannot write {self._path}: {error.strerror}") from error


def _line_of(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _first_difference(found: Any, wanted: Mapping[str, Any]) -> str:
    if not isinstance(found, dict):
        return "it has no header"
    return next(
        f"{name} is {found.get(name)!r} there and {wanted.get(name)!r} here"
        for name in sorted({*found, *wanted})
        if found.get(name) != wanted.get(name)
    )
