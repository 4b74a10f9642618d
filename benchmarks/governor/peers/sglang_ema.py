"""The rule of SGLang's `--speculative-adaptive` as a policy, to compare with.

Written after SGLang 0.5.23 (`srt/speculative/adaptive_spec_params.py`, `arg_groups/
speculative_hook.py`), with its defaults for each range of batch sizes. A range knows the average of
the tokens that its steps accepted per request,

    average += 0.2 * (accepted - average)

and begins at length 3, or else at the middle one of its lengths, with an average of one less. After
10 steps it chooses a length every 5 steps:

    shorter    while average <= max(next shorter length, 1) - 0.5 + hysteresis
    longer     otherwise, while average > length - 0.5
    at 0       always the next longer length: 5 steps of every 10 draft at least

Two differences: SGLang rounds batch sizes up to its captured ones before it looks the range up, and
with overlapped scheduling one step that drafted nothing may lower the average.

`paceline_peers-0.dist-info` beside this file registers the policy wherever this folder is on
PYTHONPATH.
"""

from __future__ import annotations

from bisect import bisect_right

from paceline.runtime.governor.policy_definition import PolicyDefinition
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample

_RANGES = (
    (1, (1, 3, 5, 7), -0.25),
    (8, (0, 1, 3), 0.0),
    (32, (0, 1), 0.0),
    (64, (0,), 0.0),
)
"""SGLang's `DEFAULT_ADAPTIVE_CONFIG`: smallest batch size, lengths, hysteresis of going shorter.
That of going longer is 0."""
_START_LENGTH = 3
_AVERAGE_STEP = 0.2
_WARM_UP_STEPS = 10
_STEPS_PER_CHOICE = 5


class SglangEmaPolicy:
    """Follows the average of accepted tokens; see the module.

    >>> policy = SglangEmaPolicy(max_draft_length=8)
    >>> load = EngineLoad(num_requests=4, context_tokens=0, prefill_tokens=0, num_waiting=0,
    ...                   max_draft_length=8)
    >>> policy.plan(load).draft_length
    3
    """

    def __init__(self, max_draft_length: int) -> None:
        self._starts = [first for first, _, _ in _RANGES]
        self._ranges = [_Range(lengths, hysteresis) for _, lengths, hysteresis in _RANGES]

    def observe(self, sample: StepSample) -> None:
        """Learn from the accepted tokens; steps without a decoding request do not count."""
        num_decoding = sample.num_requests - sample.num_prefilling
        if num_decoding:
            self._range(num_decoding).observe(sample.drafted, sample.accepted)

    def plan(self, load: EngineLoad) -> DraftPlan:
        """The length of the range, or the longest allowed one where that is shorter."""
        chosen = self._range(load.num_decoding)
        length = load.longest_allowed(chosen.length)
        return DraftPlan(length, f"{chosen.average:.2f} accepted on average")

    def _range(self, num_requests: int) -> _Range:
        return self._ranges[max(bisect_right(self._starts, num_requests) - 1, 0)]


class _Range:
    """The state of one range of batch sizes."""

    def __init__(self, lengths: tuple[int, ...], hysteresis: float) -> None:
        self._lengths = lengths
        self._hysteresis = hysteresis
        is_start_allowed = _START_LENGTH in lengths
        self._index = lengths.index(_START_LENGTH) if is_start_allowed else len(lengths) // 2
        self._num_steps = 0
        self.average = self.length - 1.0

    @property
    def length(self) -> int:
        return self._lengths[self._index]

    def observe(self, drafted: tuple[int, ...], accepted: tuple[int, ...]) -> None:
        """Add a step, and choose the length anew when it is time."""
        if self.length and any(drafted):
            mean = sum(accepted) / len(accepted)
            self.average += _AVERAGE_STEP * (mean - self.average)
        self._num_steps += 1
        counted = self._num_steps - _WARM_UP_STEPS
        if counted > 0 and counted % _STEPS_PER_CHOICE == 0:
            self._choose()

    def _choose(self) -> None:
        lengths, last = self._lengths, len(self._lengths) - 1
        before = self._index
        if self.length == 0:
            self._index = min(before + 1, last)
            return
        while self._index and self.average <= self._lowest(lengths[self._index - 1]):
            self._index -= 1
        if self._index == before:
            while self._index < last and self.average > self.length - 0.5:
                self._index += 1

    def _lowest(self, shorter: int) -> float:
        """Up to this average the length `shorter` is taken."""
        return max(shorter, 1) - 0.5 + self._hysteresis


POLICY = PolicyDefinition(
    name="sglang-ema",
    summary="The draft length that the average of accepted tokens gives, as in SGLang.",
    create=SglangEmaPolicy,
)
