"""One recording under way: turns what the scheduler sees into the lines of the file.

It knows vLLM's requests only by `RequestView`. Times are seconds since the recording began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from paceline.foundation.recording.records import (
    MAX_CATEGORIES,
    OTHER,
    Header,
    Line,
    RequestRecord,
    StepBlock,
    is_category,
)
from paceline.foundation.recording.step_cells import StepCells
from paceline.foundation.recording.verdict_counts import VerdictCounts

BLOCK_S = 5.0
"""Length of a block of steps: some hundred steps, and what a crash loses."""
CATEGORY = "paceline_category"
"""The key of `SamplingParams.extra_args` with the category of a request."""


class RequestView(Protocol):
    """What is read of a vLLM request."""

    request_id: str
    num_prompt_tokens: int
    num_output_tokens: int
    sampling_params: Any


class StepView(Protocol):
    """What is read of a finished step: the fields of the governor's `StepSample`."""

    num_requests: int
    draft_length: int
    is_clean: bool
    verified_draft_tokens: int
    prefill_tokens: int
    context_tokens: int
    duration_s: float | None
    judged: tuple[str, ...]
    drafted: tuple[int, ...]
    accepted: tuple[int, ...]


@dataclass(slots=True, eq=False)
class _Tracked:
    """A request that runs or waits."""

    request: Any
    category: str
    arrived_s: float
    draft_cap: int | None
    prefill_stats: Any
    """vLLM's account of the prompt, which it takes off the request with the first output token."""
    before_tokens: int = 0
    """Output from before the recording."""
    first_token_s: float | None = None
    verdicts: VerdictCounts = field(default_factory=VerdictCounts)

    @property
    def output_tokens(self) -> int:
        return int(self.request.num_output_tokens) - self.before_tokens

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt from the prefix cache; 0 where vLLM does not say."""
        cached = int(getattr(self.prefill_stats, "num_cached_tokens", 0))
        return min(max(cached, 0), int(self.request.num_prompt_tokens))


class RecordingSession:
    """Follows the requests and steps of one engine; passes lines to `write`. Not thread-safe."""

    def __init__(self, header: Header, write: Callable[[Line], None]) -> None:
        self._write = write
        self._tracked: dict[str, _Tracked] = {}
        self._without_output: set[str] = set()
        self._categories: set[str] = {OTHER}
        self._cells = StepCells()
        self._block_from_s = 0.0
        self._ended_tokens = 0
        """Output of the requests that have ended."""
        self._blocked_tokens = 0
        """Output in the blocks written so far."""
        self.num_requests = 0
        """Requests that have ended."""
        self.num_steps = 0
        write(header)

    def request_added(self, request: RequestView, cap: int | None, now_s: float) -> None:
        """Follow a request that has arrived."""
        self._follow(request, now_s, cap)
        self._without_output.add(request.request_id)

    def step_answered(
        self,
        step: StepView,
        scheduled: Iterable[str],
        requests: Mapping[str, RequestView],
        cap_of: Callable[[str], int | None],
        now_s: float,
    ) -> None:
        """Add the verdicts and the ends of requests of a step whose results vLLM has processed.

        `scheduled`: ids of its requests; `requests`: those that have not ended; `cap_of`: the cap
        of a request from before the recording.
        """
        ended = []
        for request_id in scheduled:
            if request_id in self._without_output:
                self._note_first_token(request_id, now_s)
            if request_id not in requests:
                ended.append(request_id)
            elif request_id not in self._tracked:
                self._adopt(requests[request_id], cap_of(request_id))
        for request_id, drafted, accepted in zip(
            step.judged, step.drafted, step.accepted, strict=True
        ):
            tracked = self._tracked.get(request_id)
            if tracked is not None:
                tracked.verdicts.add(drafted, accepted)
        for request_id in ended:
            self._end(request_id, now_s)

    def step_finished(
        self, step: StepView, requests: Mapping[str, RequestView], now_s: float
    ) -> None:
        """Add the time of a step, which may end after its answers: with its drafts."""
        self.num_steps += 1
        if step.duration_s is not None:
            self._cells.add(
                num_requests=step.num_requests,
                draft_length=step.draft_length,
                is_clean=step.is_clean,
                verified_tokens=step.verified_draft_tokens,
                prefill_tokens=step.prefill_tokens,
                context_tokens=step.context_tokens,
                seconds=step.duration_s,
            )
        if now_s - self._block_from_s >= BLOCK_S:
            for request_id in self._tracked.keys() - requests.keys():
                self._end(request_id, now_s)  # aborted while it waited
            self._write_block(now_s)

    def finish(self, now_s: float) -> None:
        """Write the last block, and the requests that have not ended."""
        self._write_block(now_s)
        for tracked in self._tracked.values():
            self._write(_record(tracked, None))
        self._tracked.clear()

    def _adopt(self, request: RequestView, cap: int | None) -> None:
        """Follow a request from before the recording. What it has now is not counted."""
        self._follow(request, 0.0, cap).before_tokens = request.num_output_tokens

    def _follow(self, request: RequestView, arrived_s: float, cap: int | None) -> _Tracked:
        category = self._category(request.sampling_params)
        stats = getattr(request, "prefill_stats", None)
        tracked = self._tracked[request.request_id] = _Tracked(
            request, category, arrived_s, cap, stats
        )
        return tracked

    def _note_first_token(self, request_id: str, now_s: float) -> None:
        tracked = self._tracked[request_id]
        if tracked.request.num_output_tokens > 0:
            tracked.first_token_s = now_s - tracked.arrived_s
            self._without_output.discard(request_id)

    def _end(self, request_id: str, now_s: float) -> None:
        tracked = self._tracked.pop(request_id, None)
        if tracked is None:
            return  # asynchronous scheduling: it was in one more step
        self._without_output.discard(request_id)
        self._ended_tokens += tracked.output_tokens
        self.num_requests += 1
        self._write(_record(tracked, now_s))

    def _write_block(self, now_s: float) -> None:
        running = sum(tracked.output_tokens for tracked in self._tracked.values())
        produced = self._ended_tokens + running
        cells = self._cells.take()
        if cells:
            new_tokens = max(produced - self._blocked_tokens, 0)
            self._write(StepBlock(
                from_s=_rounded(self._block_from_s), to_s=_rounded(now_s),
                output_tokens=new_tokens, cells=cells,
            ))  # fmt: skip
            self._blocked_tokens = max(produced, self._blocked_tokens)
        self._block_from_s = now_s

    def _category(self, sampling_params: Any) -> str:
        label = category_of(sampling_params)
        if label not in self._categories:
            if len(self._categories) >= MAX_CATEGORIES:
                return OTHER
            self._categories.add(label)
        return label


def category_of(sampling_params: Any) -> str:
    """The label that the client gave, if it is valid, else the kind of sampling.

    Drafts of sampled text are accepted less often than of greedy text, and those of structured
    output are limited by its grammar; so these are apart.
    """
    if sampling_params is None:
        return OTHER
    label = (getattr(sampling_params, "extra_args", None) or {}).get(CATEGORY)
    if label is not None:
        return str(label) if is_category(label) else OTHER
    if getattr(sampling_params, "structured_outputs", None) is not None:
        return "structured"
    return "sampled" if sampling_params.temperature > 0 else "greedy"


def _record(tracked: _Tracked, ended_s: float | None) -> RequestRecord:
    request = tracked.request
    tried, accepted = tracked.verdicts.by_position()
    return RequestRecord(
        category=tracked.category,
        arrived_s=_rounded(tracked.arrived_s),
        under_way=tracked.before_tokens > 0,
        prompt_tokens=request.num_prompt_tokens,
        cached_tokens=tracked.cached_tokens,
        output_tokens=max(tracked.output_tokens, 0),
        first_token_s=None if tracked.first_token_s is None else _rounded(tracked.first_token_s),
        ended_s=None if ended_s is None else _rounded(ended_s),
        draft_cap=tracked.draft_cap,
        asked=tracked.verdicts.asked,
        tried=tried,
        accepted=accepted,
    )


def _rounded(seconds: float) -> float:
    return round(seconds, 6)
