"""Named traces: phases scaled to a profile's loads and speed.

A phase lasts as long as `_PHASE_STEPS` undrafted steps at the profile's middle load, so that a
trace is comparable on a CPU and on eight GPUs. Closed loops measure throughput, an open loop
measures waiting.
"""

from __future__ import annotations

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.workloads.workload import TextKind
from paceline.testing.policy_simulator.evaluation.oracle import best_rate
from paceline.testing.policy_simulator.machines.cost import StepShape
from paceline.testing.policy_simulator.machines.profiles import Profile
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    OpenLoop,
    Phase,
    TrafficClass,
)

_PHASE_STEPS = 1000

# Acceptance of model drafters. Measured on small pairs: 0.68 at position 1 for greedy code, 0.58
# for probabilistic and 0.20 for greedy drafts at temperature 1; 0.86 to 0.91 in reports from large
# pairs (vllm-project/vllm pull 47111). The slopes over positions are chosen empirically.
_MODEL = {
    TextKind.PREDICTABLE: DraftTruth((0.90, 0.92, 0.93)),
    TextKind.MIDDLING: DraftTruth((0.68, 0.66, 0.64)),
    TextKind.HARD: DraftTruth((0.25, 0.20)),
    TextKind.VARIED: DraftTruth((0.68, 0.70), spread=1.2),
}
# Acceptance of n-gram drafts when there is a match: 0.32 and 0.69 measured at position 1 for one
# and for 16 requests; how often and how long matches come is chosen empirically.
_NGRAM = {
    TextKind.PREDICTABLE: DraftTruth((0.88, 0.94, 0.95), match_start=0.2, match_stay=0.95),
    TextKind.MIDDLING: DraftTruth((0.69, 0.75), match_start=0.1, match_stay=0.85),
    TextKind.HARD: DraftTruth((0.32, 0.40), match_start=0.1, match_stay=0.5),
    TextKind.VARIED: DraftTruth((0.60, 0.75), spread=1.2, match_start=0.1, match_stay=0.9),
}
_SHORT, _LONG = Lengths(32, 256), Lengths(1024, 3072)
_OUTPUT = Lengths(64, 384)
_Sizes = tuple[Lengths, Lengths]
"""Tokens of the prompt and of the output."""

# A third of all tokens come from prompts.
_SHORT_THIRD = (Lengths(32, 192), _OUTPUT)
_LONG_THIRD = (Lengths(512, 1536), Lengths(1024, 3072))

TRACE_NAMES = ("steady", "shifting", "prefills", "mixed", "ramp", "bursts", "texts")


def build_trace(name: str, profile: Profile) -> tuple[Phase, ...]:
    """The phases of the trace called `name`; ValueError for an unknown one.

    `steady`: one phase, nothing changes. `shifting`: eight phases that differ in load, text and
    context. `prefills`: the same phases with a third of all tokens from prompts, and two more at
    loads where prompts fill the step; with prompts in chunks of 16 tokens (see `Machine`), most
    steps at these loads have one. `mixed`: requests of all kinds at once. `ramp`: concurrency up
    and down again. `bursts`: an open loop at 60 % of the best rate, a fifth of it in bursts.
    `texts`: every load with every kind of text, requests that differ and requests of all kinds
    among them.
    """
    trace = _Trace(profile)
    low, high = profile.low_concurrency, profile.high_concurrency
    middle = profile.middle_concurrency
    if name == "steady":
        return (trace.phase("steady", ClosedLoop(middle), TextKind.MIDDLING),)
    if name == "shifting":
        return _shifting(trace, profile, (_SHORT, _OUTPUT), (_LONG, _OUTPUT))
    if name == "prefills":
        full, double = ClosedLoop(middle), ClosedLoop(2 * middle)
        return (
            *_shifting(trace, profile, _SHORT_THIRD, _LONG_THIRD),
            trace.phase("middle predictable", full, TextKind.PREDICTABLE, _SHORT_THIRD),
            trace.phase("double middling", double, TextKind.MIDDLING, _SHORT_THIRD),
        )
    if name == "mixed":
        return (trace.mixed("mixed", ClosedLoop(middle)), trace.mixed("crowd", ClosedLoop(high)))
    if name == "ramp":
        return (
            trace.phase("up", ClosedLoop(low, high), TextKind.MIDDLING),
            trace.phase("down", ClosedLoop(high, low), TextKind.MIDDLING),
        )
    if name == "bursts":
        return (trace.bursts(0.6, TextKind.MIDDLING), trace.bursts(0.6, TextKind.HARD))
    if name == "texts":
        loads = {"low": low, "middle": middle, "high": high}
        return tuple(
            phase
            for load, concurrency in loads.items()
            for phase in (
                *(trace.phase(f"{load} {t}", ClosedLoop(concurrency), t) for t in _MODEL),
                trace.mixed(f"{load} mixed", ClosedLoop(concurrency)),
            )
        )
    raise ValueError(
        f"trace is {name!r}; it must be one of {', '.join(TRACE_NAMES)}"
        f"{did_you_mean(name, TRACE_NAMES)}"
    )


def _shifting(trace: _Trace, profile: Profile, short: _Sizes, long: _Sizes) -> tuple[Phase, ...]:
    """Eight phases that differ in load, text and context."""
    low, high = ClosedLoop(profile.low_concurrency), ClosedLoop(profile.high_concurrency)
    middle = ClosedLoop(profile.middle_concurrency)
    return (
        trace.phase("low predictable", low, TextKind.PREDICTABLE, short),
        trace.phase("low hard", low, TextKind.HARD, short),
        trace.phase("high hard", high, TextKind.HARD, short),
        trace.phase("high predictable", high, TextKind.PREDICTABLE, short),
        trace.phase("middle middling", middle, TextKind.MIDDLING, short),
        trace.phase("middle hard", middle, TextKind.HARD, short),
        trace.phase("middle predictable long", middle, TextKind.PREDICTABLE, long),
        trace.phase("low middling", low, TextKind.MIDDLING, short),
    )


class _Trace:
    """Builds phases for one profile."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._texts = _NGRAM if profile.machine.looks_ngrams_up else _MODEL
        middle = profile.middle_concurrency
        context_tokens = middle * (_SHORT.mean + _OUTPUT.mean / 2.0)
        step = StepShape(middle, 0, 0, context_tokens, 0, tokens_per_request=1)
        self._duration_s = _PHASE_STEPS * profile.machine.cost.step_s(step)

    def phase(
        self,
        name: str,
        load: ClosedLoop | OpenLoop,
        text: TextKind,
        sizes: _Sizes = (_SHORT, _OUTPUT),
    ) -> Phase:
        """All requests of one kind of text, under one class name: a shift takes hold at once."""
        kind = TrafficClass("text", *sizes, self._texts[text])
        return Phase(name, load, (kind,), duration_s=self._duration_s)

    def mixed(self, name: str, load: ClosedLoop) -> Phase:
        kinds = (
            TrafficClass(TextKind.PREDICTABLE, _SHORT, _OUTPUT, self._texts[TextKind.PREDICTABLE]),
            TrafficClass(TextKind.HARD, _SHORT, _OUTPUT, self._texts[TextKind.HARD]),
            TrafficClass(TextKind.VARIED, _LONG, _OUTPUT, self._texts[TextKind.VARIED], weight=0.5),
        )
        return Phase(name, load, kinds, duration_s=self._duration_s)

    def bursts(self, load_fraction: float, text: TextKind) -> Phase:
        """Arrivals at a fraction of what the best length could serve at the high load."""
        profile = self._profile
        crowd = self.phase("", ClosedLoop(profile.high_concurrency), text)
        best = best_rate(crowd, profile.high_concurrency, profile.machine)
        requests_per_s = load_fraction * best.tokens_per_s / _OUTPUT.mean
        burst = max(profile.high_concurrency // 2, 1)
        period_s = burst / (0.2 * requests_per_s)
        arrivals = OpenLoop(0.8 * requests_per_s, burst, period_s)
        return self.phase(f"bursts {text}", arrivals, text)
