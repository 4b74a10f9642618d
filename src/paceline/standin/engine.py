"""Which sequence runs when?

Time is passed in; nothing here waits. A sequence waits until there is room among the running
(`max_num_seqs`), then its prompt is read, one prompt after another at `prefill_tokens_per_s`, and
its first token comes when it has been read. Token k follows exactly k time steps of `tpot_ms`
later: steps are each sequence's own, so that the times are known whatever the load.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable

from paceline.standin.answer import Piece, Writing
from paceline.standin.settings import StandInSettings


class Sequence:
    """One choice of one request in the engine. The engine sets and reads all but the first two."""

    __slots__ = (
        "due_s",
        "is_gone",
        "is_running",
        "num_chunks",
        "on_piece",
        "prompt_ids",
        "writing",
    )

    def __init__(
        self, prompt_ids: list[int], writing: Writing, on_piece: Callable[[Piece], None]
    ) -> None:
        self.prompt_ids = prompt_ids
        self.writing = writing
        self.on_piece = on_piece
        self.due_s = 0.0
        self.num_chunks = 0
        self.is_running = False
        self.is_gone = False


class Engine:
    """Waiting and running sequences, and counters as vLLM has them."""

    def __init__(self, settings: StandInSettings) -> None:
        self._settings = settings
        self._waiting: deque[Sequence] = deque()
        self._due: list[tuple[float, int, Sequence]] = []
        self._order = itertools.count()
        self._prefill_free_s = 0.0
        self.num_running = 0
        self.slow_factor = 1.0
        """Multiplies all times."""
        self.prompt_tokens_total = 0
        self.generation_tokens_total = 0
        self.finished_total: Counter[str] = Counter()

    @property
    def num_waiting(self) -> int:
        return sum(not sequence.is_gone for sequence in self._waiting)

    def submit(self, sequence: Sequence, now_s: float) -> None:
        self._waiting.append(sequence)
        self._admit(now_s)

    def abort(self, sequence: Sequence, now_s: float) -> None:
        """Nothing more comes of it; harmless when it has ended."""
        if sequence.is_gone:
            return
        sequence.is_gone = True
        self.finished_total["abort"] += 1
        self._release(sequence, now_s)

    def next_due_s(self) -> float | None:
        """When something is to happen next."""
        return self._due[0][0] if self._due else None

    def advance(self, now_s: float) -> None:
        """Do all that is due; each `on_piece` is called from within."""
        due = self._due
        while due and due[0][0] <= now_s:
            sequence = heapq.heappop(due)[2]
            if not sequence.is_gone:
                self._step(sequence, now_s)

    def _step(self, sequence: Sequence, now_s: float) -> None:
        pattern = self._settings.tokens_per_chunk
        piece = sequence.writing.advance(pattern[sequence.num_chunks % len(pattern)])
        sequence.num_chunks += 1
        self.generation_tokens_total += len(piece.ids)
        if piece.finish_reason is not None:
            sequence.is_gone = True
            self.finished_total[piece.finish_reason] += 1
            self._release(sequence, now_s)
        else:
            num_next = pattern[sequence.num_chunks % len(pattern)]
            self._push(sequence, sequence.due_s + num_next * self._tpot_s)
        sequence.on_piece(piece)

    @property
    def _tpot_s(self) -> float:
        return self._settings.tpot_ms / 1000 * self.slow_factor

    def _push(self, sequence: Sequence, due_s: float) -> None:
        sequence.due_s = due_s
        heapq.heappush(self._due, (due_s, next(self._order), sequence))

    def _release(self, sequence: Sequence, now_s: float) -> None:
        if sequence.is_running:
            sequence.is_running = False
            self.num_running -= 1
            self._admit(now_s)

    def _admit(self, now_s: float) -> None:
        while self._waiting and self.num_running < self._settings.max_num_seqs:
            sequence = self._waiting.popleft()
            if sequence.is_gone:
                continue
            sequence.is_running = True
            self.num_running += 1
            num_tokens = len(sequence.prompt_ids)
            self.prompt_tokens_total += num_tokens
            prefill_s = num_tokens / self._settings.prefill_tokens_per_s * self.slow_factor
            self._prefill_free_s = max(now_s, self._prefill_free_s) + prefill_s
            self._push(sequence, self._prefill_free_s)
