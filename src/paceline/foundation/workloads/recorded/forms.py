"""The forms of public traces: which fields hold what, and the unit in which they state their times.

Traces of several projects share the names of their fields and differ in the unit: `timestamp` is in
milliseconds in Mooncake's and in seconds in Qwen-Bailian's. So a form is known by all its fields,
and a name that several forms share states no unit. docs/bench.md lists the forms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

MOONCAKE_BLOCK_TOKENS = 512
_LARGEST_BLOCK_TOKENS = 65_536


class TimeUnit(Enum):
    """The unit of a trace's times; the value is one unit in seconds."""

    S = 1.0
    MS = 1e-3
    US = 1e-6
    NS = 1e-9

    @property
    def label(self) -> str:
        """As the option names it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class TraceForm:
    """A form of traces whose requests are lengths in tokens."""

    name: str
    time: str
    """The field of the time; dates with time are read in any form."""
    input: str
    output: str
    unit: TimeUnit | None
    """Of times that are numbers; None where the form does not state it."""
    marks: tuple[str, ...] = ()
    """Further fields by which the form differs from others with the same names."""
    block_tokens: int = MOONCAKE_BLOCK_TOKENS
    """Tokens that one of its `hash_ids` stands for."""
    has_whole_times: bool = False
    """Whether times with a fraction speak against the form."""
    max_rate_per_s: float = 100.0
    """Mean rate above which its unit is doubted. The busiest public trace, Azure's of a week in
    2024, has 36 requests/s."""

    def is_of(self, names: Collection[str]) -> bool:
        """Whether a file whose records have these fields has this form."""
        return all(name in names for name in (self.time, self.input, self.output, *self.marks))


FORMS = (
    TraceForm("BurstGPT", "Timestamp", "Request tokens", "Response tokens", TimeUnit.S),
    TraceForm("Azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens", None),
    TraceForm("Vidur", "arrived_at", "num_prefill_tokens", "num_decode_tokens", TimeUnit.S),
    TraceForm(
        "Qwen-Bailian",
        "timestamp",
        "input_length",
        "output_length",
        TimeUnit.S,
        ("chat_id", "parent_chat_id"),
        block_tokens=16,
    ),
    TraceForm(
        "Mooncake",
        "timestamp",
        "input_length",
        "output_length",
        TimeUnit.MS,
        ("hash_ids",),
        has_whole_times=True,
        # Its names are shared, and its own traces have 3 to 7 requests/s. A trace in whole
        # seconds with more than one request per 50 s is refused.
        max_rate_per_s=20.0,
    ),
)
"""In the order in which a file is tried."""


def find_form(names: Collection[str]) -> TraceForm | None:
    """The form of a file whose records have these fields; None if it is none of the public ones.

    >>> find_form(("Timestamp", "Model", "Request tokens", "Response tokens")).name
    'BurstGPT'
    """
    return next((form for form in FORMS if form.is_of(names)), None)


def fitting_block_tokens(rows: Iterable[tuple[int, int]], preferred: int) -> int | None:
    """Tokens per block by the rows' own counts, which are pairs (input tokens, blocks).

    n tokens have ceil(n / b) blocks of b tokens. Of the sizes that hold for every row the result is
    `preferred`, else the only power of two; None if the rows leave it open or contradict each
    other.

    >>> fitting_block_tokens([(60, 4), (76, 5)], 512)
    16
    """
    low, high = 1, _LARGEST_BLOCK_TOKENS
    for num_tokens, num_blocks in rows:
        if num_blocks:
            low = max(low, -(-num_tokens // num_blocks))
            if num_blocks > 1:
                high = min(high, math.ceil(num_tokens / (num_blocks - 1)) - 1)
    if low <= preferred <= high:
        return preferred
    powers = [p for p in itertools.takewhile(high.__ge__, (2**n for n in range(17))) if p >= low]
    return powers[0] if len(powers) == 1 else None
