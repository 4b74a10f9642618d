"""A bound on the prompt tokens per step, so that answers under way keep their time between tokens.

A step with P prompt tokens beside the decodes takes

    seconds = decode + token * P

and P is the largest number for which that is at most objective / margin, or `ratio` times what the
decodes take alone, whichever is more:

    P = (max(objective / margin, ratio * decode) - decode) / token

`decode` is a moving average of steps with as few prompt tokens as can be, and `token` one of what
the others take beyond it, so both follow the load, the context and the draft length. A step counts
as twice its forecast at most: a pause of the machine says nothing about the next step.

- Where prompts are in every step, slower decodes would look like slower prompts, which would get
  less and less. So a step is lean, with as few prompt tokens as can be, after `_MOST_RICH` others,
  and after one with prompts in half the time of decodes; and so are the first `_FIRST_DECODES`.
- Short prompts cost a GPU that reads its weights anyway next to nothing, and say little about long
  ones: a step teaches `token` in proportion to its share of P, and P is at most twice the longest
  that was computed recently beside decodes (`_SLOW_START` at first).
- A late step with a longer chunk than any before teaches `token` at once and beyond twice.

The margin grows by `_RISE` (at first by more) with each late decode step, with or without a
prefill, and shrinks with each other step so slowly that the two balance when `_MISSES` of the steps
are late. So 99 % of the steps keep the objective even when the forecast is wrong, if any P can keep
it. Where decoding alone exceeds it, `_LEAST_TOKENS` per step are still computed: the queue drains.

A ratio of 0 puts the objective above everything. With another the margin follows only steps with
prompts, and grows only where the objective bounds them: others are late because decodes are, and
prompts would pay for that long after.

Assumes that the time between two tokens of a request is the duration of a step (a request waits for
no step but its own). References: chunked prefills under such a limit, Sarathi-Serve, arXiv
2403.02310; the margin as the stochastic approximation of a quantile, Robbins and Monro, 1951.
"""

from __future__ import annotations

from statistics import median

# All chosen empirically.
_LEAST_TOKENS = 16
_MOST_RICH = 16
_SLOW_START = 256
_FIRST_DECODES = 3
"""Lean steps before the first prompt beside decodes; their median counts. The first one of an
engine can take a hundred times as long as the others, and one that ended while the process paused
is timed as far too short."""
_FORGET_SHARE = 0.1
"""Of the longest chunk, for each step with a shorter one."""
_MISSES = 0.005
"""Half of what P99 allows: the objective is judged on waits, and one long step is several waits."""
_RISE = 0.05
_FIRST_RISE = 0.3
"""For the first late step; half for the second, a third for the third, down to `_RISE`. As many as
there should have been by now count, if there were fewer."""
_MIN_MARGIN, _MAX_MARGIN = 1.0, 4.0
_FIRST_MARGIN = 1.3
_LEARN_SHARE, _LATE_LEARN_SHARE = 0.2, 0.5
_MOST_LATE = 8.0
"""A late step counts as that many times its forecast at most."""
_FIRST_TOKEN_SHARE = 0.1
"""A prompt token's assumed share of the decodes before any was measured: a high one."""
_LEAST_TOKEN_SHARE = 1e-3
"""Of the decodes: what a prompt token takes can double from here, also after a measured 0."""
_NO_TIME_S = 1e-9
"""In place of 0, to divide by."""


class PrefillPacer:
    """Bounds prefills under an objective for the time between two tokens, in seconds."""

    def __init__(self, objective_s: float, *, ratio: float = 0.0) -> None:
        """`ratio`: a step may take that many times what its decodes take, beyond the objective too.

        0 never allows that; else it is more than 1. ValueError for other numbers.
        """
        if not objective_s > 0.0:
            raise ValueError(f"objective_s is {objective_s}; it must be positive")
        if ratio != 0.0 and not ratio > 1.0:
            raise ValueError(f"ratio is {ratio}; it must be 0 or more than 1")
        self._objective_s = objective_s
        self._ratio = ratio
        self._decode_s = 0.0
        self._first_decodes_s: list[float] = []
        self._token_s: float | None = None
        self._num_rich = 0  # steps with prompts since the last one that shows what decodes take
        self._longest = _SLOW_START / 2.0
        self._margin = _FIRST_MARGIN
        self._num_late = self._num_judged = 0  # steps with prompts

    def observe(
        self, duration_s: float, prefill_tokens: int, *, is_decoding: bool, is_lean: bool = False
    ) -> None:
        """Learn from a step of `duration_s`.

        `is_decoding`: answers under way waited for it; others teach nothing. `is_lean`: 0 prompt
        tokens were allowed, and `prefill_tokens` could not be avoided.
        """
        if duration_s <= 0.0 or not is_decoding:
            return
        if prefill_tokens == 0 or is_lean:
            self._learn_decode(duration_s, prefill_tokens)
        else:
            self._learn_token(duration_s, prefill_tokens)
        if self._decode_s:
            self._adapt_margin(duration_s, prefill_tokens)

    def max_prefill_tokens(self) -> int:
        """Prompt tokens for a step in which answers are under way.

        0 asks for a step with as few as possible, to time the decodes.
        """
        if self._num_rich >= _MOST_RICH or self._decode_s == 0.0:
            return 0
        return self._room_tokens()

    def _room_tokens(self) -> int:
        token_s = self._token_s
        if token_s is None:
            token_s = _FIRST_TOKEN_SHARE * self._decode_s
        step_s = max(self._objective_s / self._margin, self._ratio * self._decode_s)
        room_s = max(step_s - self._decode_s, 0.0)
        room = min(room_s / max(token_s, _NO_TIME_S), max(2.0 * self._longest, _SLOW_START))
        return max(int(room), _LEAST_TOKENS)

    def _learn_decode(self, duration_s: float, prefill_tokens: int) -> None:
        decode_s = self._decode_s
        # Half of it at least: what a prompt token takes is itself an estimate.
        prompts_s = min((self._token_s or 0.0) * prefill_tokens, duration_s / 2.0)
        alone_s = duration_s - prompts_s
        # The more steps since the last one that showed it, the less it says about this one.
        share = 1.0 - (1.0 - _LEARN_SHARE) ** (1.0 + self._num_rich / _MOST_RICH * 4.0)
        self._num_rich = 0
        if decode_s == 0.0:
            self._first_decodes_s.append(alone_s)
            if len(self._first_decodes_s) == _FIRST_DECODES:
                self._decode_s = median(self._first_decodes_s)
        else:
            self._decode_s += share * (min(alone_s, 2.0 * decode_s) - decode_s)

    def _learn_token(self, duration_s: float, prefill_tokens: int) -> None:
        decode_s, token_s = self._decode_s, self._token_s
        self._num_rich += 1
        if decode_s == 0.0:
            return
        if duration_s < decode_s / 2.0:
            self._num_rich = _MOST_RICH  # either is wrong: time the decodes again
        found_s = max(duration_s - decode_s, 0.0) / prefill_tokens
        if token_s is None:
            self._token_s = found_s
        else:
            share = min(prefill_tokens / self._room_tokens(), 1.0)
            is_late = prefill_tokens > self._longest and duration_s > max(
                self._objective_s, self._ratio * decode_s
            )
            most_s = max(token_s, _LEAST_TOKEN_SHARE * decode_s) * (_MOST_LATE if is_late else 2.0)
            share *= _LATE_LEARN_SHARE if is_late else _LEARN_SHARE
            self._token_s = token_s + share * (min(found_s, most_s) - token_s)
        forgotten = (1.0 - _FORGET_SHARE) * self._longest
        self._longest = max(forgotten, float(prefill_tokens), _SLOW_START / 2.0)

    def _adapt_margin(self, duration_s: float, prefill_tokens: int) -> None:
        if self._ratio and prefill_tokens == 0:
            return
        self._num_judged += prefill_tokens > 0
        if duration_s <= self._objective_s:
            self._margin = max(self._margin * (1.0 - _RISE * _MISSES), _MIN_MARGIN)
            return
        if self._ratio * self._decode_s >= self._objective_s / self._margin:
            return
        rise = _RISE
        if prefill_tokens:
            self._num_late += 1
            rise = max(_FIRST_RISE / max(self._num_late, _MISSES * self._num_judged), rise)
        self._margin = min(self._margin * (1.0 + rise), _MAX_MARGIN)
