"""Schedule sequences in virtual time, so that the time of every token is known in advance.

The caller passes the time in; nothing in this module waits. A sequence is queued until fewer than
`max_num_seqs` run and the virtual KV cache has room for it. Then the part of its prompt that is not
cached is prefilled; prompts are prefilled one after another at `prefill_tokens_per_s`. The first
token is due when the prefill ends, and token k is due k * `tpot_ms` later. Each sequence has its
own steps, so these times do not depend on the load, unless `tpot_per_sequence_ms` makes them: the
number of sequences that run when a token is sent decides when the next one is due. With scripted
speculation, a step after the first token verifies K drafts, yields one token more than it accepts,
and takes K * (`draft_ms` + n * `verify_ms`) longer with n running sequences. When the cache is
full, the sequence that started last is preempted: it loses its blocks, goes to the front of the
queue, and its tokens are prefilled again.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable

from paceline.testing.mock_vllm.engine.kv_cache import KvCache, SequenceBlocks
from paceline.testing.mock_vllm.engine.latencies import Latencies
from paceline.testing.mock_vllm.model.answer import AnswerDelta, AnswerGenerator
from paceline.testing.mock_vllm.model.speculation import DraftVerdicts
from paceline.testing.mock_vllm.settings import MockVllmSettings


class Sequence:
    """One choice of one request. Only the engine mutates it."""

    __slots__ = (
        "accepted_by_step",
        "admitted_s",
        "blocks",
        "cache_salt",
        "due_s",
        "generator",
        "ids",
        "is_ended",
        "is_held",
        "last_token_s",
        "num_chunks",
        "on_delta",
        "submitted_s",
        "verdicts",
    )

    def __init__(
        self,
        prompt_ids: list[int],
        cache_salt: str,
        generator: AnswerGenerator,
        on_delta: Callable[[AnswerDelta], None],
        verdicts: DraftVerdicts | None = None,
    ) -> None:
        self.ids = list(prompt_ids)
        """The prompt and all tokens generated so far."""
        self.cache_salt = cache_salt
        self.generator = generator
        self.on_delta = on_delta
        self.verdicts = verdicts
        """Needed where the engine speculates."""
        self.due_s = 0.0
        self.submitted_s = 0.0
        self.admitted_s: float | None = None
        """When it left the queue for the first time."""
        self.last_token_s = 0.0
        self.num_chunks = 0
        self.accepted_by_step: list[int] = []
        """Accepted draft tokens of each step that verified drafts."""
        self.blocks: SequenceBlocks | None = None
        """None while the sequence does not run."""
        self.is_held = False
        self.is_ended = False


class Engine:
    """The waiting and the running sequences, with vLLM's counters."""

    def __init__(self, settings: MockVllmSettings) -> None:
        self._settings = settings
        self._waiting: deque[Sequence] = deque()
        self._running: dict[Sequence, None] = {}
        self._due: list[tuple[float, int, Sequence]] = []
        self._order = itertools.count()
        self._prefill_free_s = 0.0
        self.cache = KvCache(settings.kv_blocks)
        self.is_paused = False
        """While true, `advance` does nothing. It takes effect at once when set in `on_delta`."""
        self.slow_factor = 1.0
        """Factor on all prefill times and times per token."""
        self.prompt_tokens_total = 0
        self.generation_tokens_total = 0
        self.preemptions_total = 0
        self.drafts_total = 0
        self.draft_tokens_total = 0
        speculation = settings.speculation
        self.draft_length = 0 if speculation is None else speculation.draft_length
        """Draft tokens of the steps that follow, at most those of the speculation."""
        self.accepted_per_position_total = [0] * self.draft_length
        self.finished_total: Counter[str] = Counter()
        self.latencies = Latencies()

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def submit(self, sequence: Sequence, now_s: float) -> None:
        sequence.submitted_s = now_s
        self._waiting.append(sequence)
        self._admit(now_s)

    def abort(self, sequence: Sequence, now_s: float) -> None:
        """End the sequence without further tokens. Does nothing if it has ended."""
        if sequence.is_ended:
            return
        sequence.is_ended = True
        self.finished_total["abort"] += 1
        if sequence.blocks is None:
            self._waiting.remove(sequence)
        else:
            self._stop(sequence)
            self._admit(now_s)

    def hold(self, sequence: Sequence) -> None:
        """Generate no tokens for the sequence until `release`; it keeps its slot and its blocks."""
        sequence.is_held = True

    def release(self, sequence: Sequence, now_s: float) -> None:
        if sequence.is_held:
            sequence.is_held = False
            if sequence.blocks is not None:
                self._push(sequence, now_s + self._step_s(1))

    def next_due_s(self) -> float | None:
        """When `advance` has to be called next; None while no sequence is due."""
        return self._due[0][0] if self._due else None

    def advance(self, now_s: float) -> None:
        """Run all steps that are due; calls `on_delta` of each sequence that steps."""
        due = self._due
        while due and due[0][0] <= now_s and not self.is_paused:
            due_s, _, sequence = heapq.heappop(due)
            is_current = due_s == sequence.due_s and sequence.blocks is not None
            if is_current and not sequence.is_held:
                self._step(sequence, now_s)

    def _step(self, sequence: Sequence, now_s: float) -> None:
        num_wanted = self._num_tokens(sequence)
        if not self._make_room(sequence, len(sequence.ids) + num_wanted, now_s):
            return
        if self.draft_length and sequence.num_chunks:
            self._count_drafts(num_wanted - 1)
            sequence.accepted_by_step.append(num_wanted - 1)
        self._time_token(sequence)
        delta = sequence.generator.advance(num_wanted)
        sequence.num_chunks += 1
        sequence.ids += delta.ids
        self.generation_tokens_total += len(delta.ids)
        if delta.finish_reason is not None:
            sequence.is_ended = True
            self.finished_total[delta.finish_reason] += 1
            if sequence.admitted_s is not None:
                self.latencies.queue.observe(sequence.admitted_s - sequence.submitted_s)
            self._stop(sequence)
            self._admit(now_s)
        else:
            num_next = 1 if self.draft_length else self._num_tokens(sequence)
            self._push(sequence, sequence.due_s + self._step_s(num_next))
        sequence.on_delta(delta)

    def _time_token(self, sequence: Sequence) -> None:
        if sequence.num_chunks:
            self.latencies.inter_token.observe(sequence.due_s - sequence.last_token_s)
        else:
            self.latencies.first_token.observe(sequence.due_s - sequence.submitted_s)
        sequence.last_token_s = sequence.due_s

    def _make_room(self, sequence: Sequence, num_tokens: int, now_s: float) -> bool:
        """Preempt until the sequence fits; returns False if it was itself preempted."""
        assert sequence.blocks is not None
        while not self.cache.grow(sequence.blocks, num_tokens):
            victim = next(reversed(self._running))
            self._stop(victim)
            self._waiting.appendleft(victim)
            self.preemptions_total += 1
            if victim is sequence:
                return False
        return True

    def _num_tokens(self, sequence: Sequence) -> int:
        """Tokens of the sequence's next chunk; the first one has no drafts."""
        if not self.draft_length:
            pattern = self._settings.tokens_per_chunk
            return pattern[sequence.num_chunks % len(pattern)]
        if not sequence.num_chunks:
            return 1
        assert sequence.verdicts is not None
        return 1 + sequence.verdicts.num_accepted(sequence.generator.num_tokens, self.draft_length)

    def _count_drafts(self, num_accepted: int) -> None:
        self.drafts_total += 1
        self.draft_tokens_total += self.draft_length
        for position in range(num_accepted):
            self.accepted_per_position_total[position] += 1

    def _step_s(self, num_tokens: int) -> float:
        """Time to the next chunk of a sequence, with `num_tokens` tokens that are no drafts."""
        settings = self._settings
        per_draft_ms = settings.draft_ms + len(self._running) * settings.verify_ms
        others_ms = settings.tpot_per_sequence_ms * max(0, len(self._running) - 1)
        milliseconds = num_tokens * (settings.tpot_ms + others_ms)
        milliseconds += self.draft_length * per_draft_ms
        return milliseconds / 1000 * self.slow_factor

    def _push(self, sequence: Sequence, due_s: float) -> None:
        sequence.due_s = due_s
        heapq.heappush(self._due, (due_s, next(self._order), sequence))

    def _stop(self, sequence: Sequence) -> None:
        assert sequence.blocks is not None
        del self._running[sequence]
        self.cache.free(sequence.blocks, sequence.ids, sequence.cache_salt)
        sequence.blocks = None

    def _admit(self, now_s: float) -> None:
        while self._waiting and len(self._running) < self._settings.max_num_seqs:
            sequence = self._waiting[0]
            blocks = self.cache.allocate(sequence.ids, sequence.cache_salt)
            if blocks is None:
                return
            self._waiting.popleft()
            self._running[sequence] = None
            if sequence.admitted_s is None:
                sequence.admitted_s = now_s
            sequence.blocks = blocks
            num_tokens = len(sequence.ids)
            if not sequence.num_chunks:
                self.prompt_tokens_total += num_tokens
            num_uncached = num_tokens - blocks.num_cached_tokens
            prefill_s = num_uncached / self._settings.prefill_tokens_per_s * self.slow_factor
            self._prefill_free_s = max(now_s, self._prefill_free_s) + prefill_s
            self._push(sequence, self._prefill_free_s)
