"""Drafts from every position of recorded texts: accepted tokens and the draft's confidence.

The texts are the bundled target's own, 64 of each kind. `collect.py` records them. A draft that is
recorded at a position was judged against the text that follows, so a replay in which a request
moves on by the accepted tokens and one more is exact: the next draft begins where a draft was
recorded. What came after a rejected token was drafted too, from the draft model's own context, so
confidences are recorded at all depths.

The odd texts of a kind are for evaluation; the even ones are left for fitting, so that a map from
confidence to acceptance is never judged on the texts that it was fitted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

MAX_DRAFT_TOKENS = 8
RECORDED = Path(__file__).parent / "drafts.npz"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of text."""

    name: str
    temperature: float
    """Of target and draft; 0 for greedy."""

    @property
    def sampling_class(self) -> str:
        """The class of its requests, as the governor names them."""
        return "sampled" if self.temperature > 0 else "greedy"


KINDS = (
    Kind("predictable", 0.0),
    Kind("code", 0.0),
    Kind("docstring", 0.0),
    Kind("code_at_0.8", 0.8),
    Kind("code_at_1", 1.0),
    Kind("prose_at_1", 1.0),
    Kind("random_at_1", 1.0),
)
"""Renaming and JSON, code, docstrings, code sampled, prose, and what follows random tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class Recordings:
    """The drafts of all texts, padded to the longest text."""

    kinds: Ints
    """Index into `KINDS` of each text, (num_texts,)."""
    num_positions: Ints
    """Positions with a draft, of each text, (num_texts,)."""
    num_accepted: Ints
    """Accepted tokens of the draft from each position, (num_texts, max_positions)."""
    top_logits: Floats
    """log(p / (1 - p)) of the draft's likeliest token at each depth, whether or not it was the one
    drafted, (num_texts, max_positions, MAX_DRAFT_TOKENS)."""

    def __post_init__(self) -> None:
        shape = (len(self.kinds), int(self.num_positions.max(initial=0)))
        if self.num_accepted.shape != shape or self.top_logits.shape != (*shape, MAX_DRAFT_TOKENS):
            raise ValueError(
                f"num_accepted has shape {self.num_accepted.shape} and top_logits "
                f"{self.top_logits.shape}; they must be {shape} and {(*shape, MAX_DRAFT_TOKENS)}"
            )
        if not np.all((self.num_accepted >= 0) & (self.num_accepted <= MAX_DRAFT_TOKENS)):
            raise ValueError(f"num_accepted must be from 0 to {MAX_DRAFT_TOKENS}")

    def evaluated_texts(self, kind: str) -> Ints:
        """Numbers of the texts of this kind that are for evaluation."""
        return self._texts_of(kind)[1::2]

    def fitting_texts(self, kind: str) -> Ints:
        """Numbers of the texts of this kind that are for fitting."""
        return self._texts_of(kind)[::2]

    def _texts_of(self, kind: str) -> Ints:
        names = [known.name for known in KINDS]
        if kind not in names:
            raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(names)}")
        return np.flatnonzero(self.kinds == names.index(kind))


def pack(texts: Sequence[tuple[int, npt.ArrayLike, npt.ArrayLike]]) -> Recordings:
    """Recordings of (index of the kind, accepted tokens, top probabilities) of each text; the
    latter have shape (num_positions,) and (num_positions, MAX_DRAFT_TOKENS)."""
    accepted = [np.asarray(found, dtype=np.int64) for _, found, _ in texts]
    lengths = np.array([len(found) for found in accepted])
    shape = (len(texts), int(lengths.max()))
    num_accepted, top_logits = np.zeros(shape, np.int64), np.zeros((*shape, MAX_DRAFT_TOKENS))
    for row, (_, _, top_probs) in enumerate(texts):
        num_accepted[row, : lengths[row]] = accepted[row]
        top_logits[row, : lengths[row]] = _logits(np.asarray(top_probs, dtype=np.float64))
    kinds = np.array([kind for kind, _, _ in texts])
    return Recordings(kinds, lengths, num_accepted, top_logits)


def write_recordings(path: Path, recordings: Recordings) -> None:
    """Write a compressed file. Log-odds in half precision are exact to 0.05 % of themselves; a
    probability near 1 in half precision would lose its distance from 1."""
    is_text = np.arange(recordings.num_accepted.shape[1]) < recordings.num_positions[:, None]
    np.savez_compressed(
        path,
        kinds=recordings.kinds.astype(np.uint8),
        num_positions=recordings.num_positions.astype(np.uint16),
        num_accepted=recordings.num_accepted[is_text].astype(np.uint8),
        top_logits=recordings.top_logits[is_text].astype(np.float16),
    )


def read_recordings(path: Path = RECORDED) -> Recordings:
    """The recordings of a file that `write_recordings` wrote."""
    with np.load(path, allow_pickle=False) as file:
        kinds, lengths = file["kinds"].astype(np.int64), file["num_positions"].astype(np.int64)
        shape = (len(lengths), int(lengths.max()))
        is_text = np.arange(shape[1]) < lengths[:, None]
        num_accepted, top_logits = np.zeros(shape, np.int64), np.zeros((*shape, MAX_DRAFT_TOKENS))
        num_accepted[is_text], top_logits[is_text] = file["num_accepted"], file["top_logits"]
    return Recordings(kinds, lengths, num_accepted, top_logits)


def _logits(probs: Floats) -> Floats:
    bounded = np.clip(probs, 1e-6, 1 - 1e-6)
    found: Floats = np.log(bounded) - np.log1p(-bounded)
    return found
