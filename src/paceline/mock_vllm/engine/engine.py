"""Which sequence runs when?

Time is passed in; nothing here waits. A sequence waits until there is room among the running
(`max_num_seqs`) and in the virtual KV cache. Then what the cache does not hold of its prompt is
read, one prompt after another at `prefill_tokens_per_s`, and its first token comes when that is
done. Token k follows exactly k steps of `tpot_ms` later: steps are each sequence's own, so that
the times are known whatever the load. When the cache is full, the sequence that started last is
preempted: it loses its blocks, waits in front of the others, and its tokens are read again.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable

from paceline.mock_vllm.engine.kv_cache import Holding, KvCache
from paceline.mock_vllm.model.answer import Piece, Writing
from paceline.mock_vllm.settings import MockVllmSettings


class Sequence:
    """One choice of one request in the engine, which alone changes it."""

    __slots__ = (
        "cache_salt",
        "due_s",
        "holding",
        "ids",
        "is_gone",
        "is_held",
        "num_chunks",
        "on_piece",
        "writing",
    )

    def __init__(
        self,
        prompt_ids: list[int],
        cache_salt: str,
        writing: Writing,
        on_piece: Callable[[Piece], None],
    ) -> None:
        self.ids = list(prompt_ids)
        """The prompt and all that was made."""
        self.cache_salt = cache_salt
        self.writing = writing
        self.on_piece = on_piece
        self.due_s = 0.0
        self.num_chunks = 0
        self.holding: Holding | None = None
        """None while it does not run."""
        self.is_held = False
        self.is_gone = False


class Engine:
    """Waiting and running sequences, and counters as vLLM has them."""

    def __init__(self, settings: MockVllmSettings) -> None:
        self._settings = settings
        self._waiting: deque[Sequence] = deque()
        self._running: dict[Sequence, None] = {}
        self._due: list[tuple[float, int, Sequence]] = []
        self._order = itertools.count()
        self._prefill_free_s = 0.0
        self.cache = KvCache(settings.kv_blocks)
        self.is_stopped = False
        """Nothing is done; set it within `on_piece`, and what else is due waits too."""
        self.slow_factor = 1.0
        """Multiplies all times."""
        self.prompt_tokens_total = 0
        self.generation_tokens_total = 0
        self.preemptions_total = 0
        self.finished_total: Counter[str] = Counter()

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def submit(self, sequence: Sequence, now_s: float) -> None:
        self._waiting.append(sequence)
        self._admit(now_s)

    def abort(self, sequence: Sequence, now_s: float) -> None:
        """Nothing more comes of it; harmless when it has ended."""
        if sequence.is_gone:
            return
        sequence.is_gone = True
        self.finished_total["abort"] += 1
        if sequence.holding is None:
            self._waiting.remove(sequence)
        else:
            self._stop(sequence)
            self._admit(now_s)

    def hold(self, sequence: Sequence) -> None:
        """It makes no more tokens until `release`, and keeps its place."""
        sequence.is_held = True

    def release(self, sequence: Sequence, now_s: float) -> None:
        if sequence.is_held:
            sequence.is_held = False
            if sequence.holding is not None:
                self._push(sequence, now_s + self._tpot_s)

    def next_due_s(self) -> float | None:
        """When something is to happen next."""
        return self._due[0][0] if self._due else None

    def advance(self, now_s: float) -> None:
        """Do all that is due; each `on_piece` is called from within."""
        due = self._due
        while due and due[0][0] <= now_s and not self.is_stopped:
            due_s, _, sequence = heapq.heappop(due)
            is_current = due_s == sequence.due_s and sequence.holding is not None
            if is_current and not sequence.is_held:
                self._step(sequence, now_s)

    def _step(self, sequence: Sequence, now_s: float) -> None:
        pattern = self._settings.tokens_per_chunk
        num_wanted = pattern[sequence.num_chunks % len(pattern)]
        if not self._make_room(sequence, len(sequence.ids) + num_wanted, now_s):
            return
        piece = sequence.writing.advance(num_wanted)
        sequence.num_chunks += 1
        sequence.ids += piece.ids
        self.generation_tokens_total += len(piece.ids)
        if piece.finish_reason is not None:
            sequence.is_gone = True
            self.finished_total[piece.finish_reason] += 1
            self._stop(sequence)
            self._admit(now_s)
        else:
            num_next = pattern[sequence.num_chunks % len(pattern)]
            self._push(sequence, sequence.due_s + num_next * self._tpot_s)
        sequence.on_piece(piece)

    def _make_room(self, sequence: Sequence, num_tokens: int, now_s: float) -> bool:
        """False when the sequence itself had to give way."""
        assert sequence.holding is not None
        while not self.cache.grow(sequence.holding, num_tokens):
            victim = next(reversed(self._running))
            self._stop(victim)
            self._waiting.appendleft(victim)
            self.preemptions_total += 1
            if victim is sequence:
                return False
        return True

    @property
    def _tpot_s(self) -> float:
        return self._settings.tpot_ms / 1000 * self.slow_factor

    def _push(self, sequence: Sequence, due_s: float) -> None:
        sequence.due_s = due_s
        heapq.heappush(self._due, (due_s, next(self._order), sequence))

    def _stop(self, sequence: Sequence) -> None:
        assert sequence.holding is not None
        del self._running[sequence]
        self.cache.end(sequence.holding, sequence.ids, sequence.cache_salt)
        sequence.holding = None

    def _admit(self, now_s: float) -> None:
        while self._waiting and len(self._running) < self._settings.max_num_seqs:
            sequence = self._waiting[0]
            holding = self.cache.begin(sequence.ids, sequence.cache_salt)
            if holding is None:
                return
            self._waiting.popleft()
            self._running[sequence] = None
            sequence.holding = holding
            num_tokens = len(sequence.ids)
            if not sequence.num_chunks:
                self.prompt_tokens_total += num_tokens
            num_to_read = num_tokens - holding.num_cached_tokens
            prefill_s = num_to_read / self._settings.prefill_tokens_per_s * self.slow_factor
            self._prefill_free_s = max(now_s, self._prefill_free_s) + prefill_s
            self._push(sequence, self._prefill_free_s)
