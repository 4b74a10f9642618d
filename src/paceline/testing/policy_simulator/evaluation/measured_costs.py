"""The `CostTable` that an engine would measure at its start, on a simulated machine."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.foundation.capacity.cost_table import CostTable
from paceline.testing.policy_simulator.machines.cost import StepShape
from paceline.testing.policy_simulator.machines.machine import Machine

_CONTEXT_TOKENS = 256
_LONG_CONTEXT_TOKENS = 2048


def measured_costs(machine: Machine) -> CostTable:
    """The table, without noise."""
    sizes = tuple(_sizes(machine.max_num_seqs))
    lengths = tuple(range(machine.max_draft_length + 1))

    def step_s(size: int, width: int, length: int, context: int = _CONTEXT_TOKENS) -> float:
        return machine.cost.step_s(
            StepShape(
                num_requests=size,
                verified_draft_tokens=size * width,
                prefill_tokens=0,
                context_tokens=size * context,
                draft_passes=machine.draft_passes(length),
                tokens_per_request=1 + width,
            )
        )

    largest, longest = sizes[-1], lengths[-1]
    longer = largest * (_LONG_CONTEXT_TOKENS - _CONTEXT_TOKENS)

    def context_s(length: int) -> float:
        added_s = step_s(largest, 0, length, _LONG_CONTEXT_TOKENS) - step_s(largest, 0, length)
        return max(added_s, 0.0) / longer

    pass_s = (context_s(longest) - context_s(0)) / longest if longest else 0.0
    return CostTable(
        sizes=sizes,
        lengths=lengths,
        verify_s=tuple(tuple(step_s(size, width, 0) for width in lengths) for size in sizes),
        draft_s=tuple(
            tuple(max(step_s(size, 0, length) - step_s(size, 0, 0), 0.0) for length in lengths)
            for size in sizes
        ),
        context_tokens=_CONTEXT_TOKENS,
        context_s=context_s(0),
        draft_context_s=max(pass_s, 0.0),
    )


def _sizes(largest: int) -> Iterator[int]:
    """1 to the largest, doubling in two steps: 1, 2, 3, 4, 6, 8, 12, …"""
    size = 1
    while size < largest:
        yield size
        if size > 1 and 3 * size // 2 < largest:
            yield 3 * size // 2
        size *= 2
    yield largest
