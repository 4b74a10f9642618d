"""A round of four blocks, and the differences between its arms.

The blocks of a round send the same requests with the same arrival schedule, in the order A B B A or
B A A B, which a coin decides. A drift of the machine that is linear over the round cancels. If the
two arms do not differ, the coin makes every difference as likely as its negative, whatever the
noise and however it is correlated in time. That symmetry is all that `signed_rank` assumes.

The two blocks of A are compared in the order of time, so a machine that warms up, slows down or
remembers what ran before shows as a difference of A from itself. Such an effect cancels in B
against A only while it is linear over a round and alike in both servers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from paceline.foundation.load.records import RequestRecord


class Arm(StrEnum):
    A = "a"
    B = "b"


class Figure(StrEnum):
    """What is compared, by its key in the report."""

    OUTPUT_TOKENS_PER_S = "output_tokens_per_s"
    TTFT_MS = "ttft_ms"
    TPOT_MS = "tpot_ms"

    @property
    def more_is_faster(self) -> bool:
        return self is Figure.OUTPUT_TOKENS_PER_S


@dataclass(frozen=True, slots=True)
class Block:
    """One block under load: its place and its figures. Unknown figures are None."""

    round_index: int
    position: int
    """0 to 3 within the round."""
    arm: Arm
    started_s: float
    """Since the start of the comparison."""
    window_s: float
    num_requests: int
    num_errors: int
    output_tokens: int
    output_tokens_per_s: float | None
    ttft_ms: float | None
    """Mean of the block's requests."""
    tpot_ms: float | None
    """Of all tokens after the first of each request: sum of times / sum of tokens."""
    dispatch_delays_ms: tuple[float, ...]
    """How late each request was sent, (num_requests,)."""

    def figure(self, figure: Figure) -> float | None:
        value = {
            Figure.OUTPUT_TOKENS_PER_S: self.output_tokens_per_s,
            Figure.TTFT_MS: self.ttft_ms,
            Figure.TPOT_MS: self.tpot_ms,
        }[figure]
        return value if value is not None and value > 0 else None


@dataclass(frozen=True, slots=True)
class Round:
    """Four blocks of the same requests, in the order in which they ran."""

    blocks: tuple[Block, Block, Block, Block]

    @property
    def num_errors(self) -> int:
        return sum(block.num_errors for block in self.blocks)

    def difference(self, figure: Figure) -> float | None:
        """log(B / A), each the geometric mean of its two blocks; None if one is unknown."""
        a, b = self._logs(Arm.A, figure), self._logs(Arm.B, figure)
        if a is None or b is None:
            return None
        return (sum(b) - sum(a)) / 2

    def aa_difference(self, figure: Figure) -> float | None:
        """log(later / earlier block of A); None if one is unknown."""
        a = self._logs(Arm.A, figure)
        return None if a is None else a[1] - a[0]

    def _logs(self, arm: Arm, figure: Figure) -> list[float] | None:
        values = [block.figure(figure) for block in self.blocks if block.arm is arm]
        if any(value is None for value in values):
            return None
        return [math.log(value) for value in values if value is not None]


def choose_order(coin: random.Random) -> tuple[Arm, Arm, Arm, Arm]:
    """A B B A or B A A B, each with probability 1/2."""
    first, second = (Arm.A, Arm.B) if coin.random() < 0.5 else (Arm.B, Arm.A)
    return first, second, second, first


def make_block(
    records: Sequence[RequestRecord],
    *,
    round_index: int,
    position: int,
    arm: Arm,
    started_s: float,
) -> Block:
    """The figures of the block's records. Failed requests are counted and enter no figure."""
    done = [record for record in records if record.is_ok]
    window_s = (
        max(r.finished_s for r in records) - min(r.scheduled_s for r in records) if records else 0.0
    )
    has_usage = bool(done) and all(record.output_tokens is not None for record in done)
    output_tokens = sum(record.output_tokens or 0 for record in done)
    ttfts_s = [record.ttft_s for record in done if record.ttft_s is not None]
    tails = [
        (record.e2e_s - record.ttft_s, record.output_tokens - 1)
        for record in done
        if record.ttft_s is not None and (record.output_tokens or 0) >= 2
        if record.output_tokens is not None
    ]
    return Block(
        round_index=round_index,
        position=position,
        arm=arm,
        started_s=started_s,
        window_s=window_s,
        num_requests=len(records),
        num_errors=len(records) - len(done),
        output_tokens=output_tokens,
        output_tokens_per_s=output_tokens / window_s if has_usage and window_s > 0 else None,
        ttft_ms=1e3 * sum(ttfts_s) / len(ttfts_s) if ttfts_s else None,
        tpot_ms=1e3 * sum(s for s, _ in tails) / sum(n for _, n in tails) if tails else None,
        dispatch_delays_ms=tuple(1e3 * r.dispatch_delay_s for r in records),
    )
