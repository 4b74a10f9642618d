"""Keep the engine alive when a request with a seed is prefilled in pieces on a CPU.

vLLM samples a token for every piece of a prompt and discards all but the last. For a request with a
seed it then rewinds the generator by one draw (`GPUModelRunner._bookkeeping_sync`:
`gen.set_offset(gen.get_offset() - 4)`). Generators on CPUs have no offset: the call raises, and one
long prompt with a seed crashes the engine (seen in vLLM 0.32.0, with and without speculation).

The fix hides the generators of discarded tokens from that method, so they are not rewound. A seeded
request whose prompt was split has therefore made one more draw per piece: its sample comes from the
right distribution, but is not the one it would get unsplit.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.compat.model_runner_loading import when_model_runner_loads

logger = logging.getLogger("vllm.paceline.seeded_generator")

_MARK = "__paceline_generators__"


def apply() -> bool:
    """Register the fix for this process's workers; return whether it was registered.

    Does nothing on platforms other than CPUs. Idempotent.
    """
    return when_model_runner_loads(_wrap_bookkeeping)


def _wrap_bookkeeping() -> None:
    """Wrap the method in a process that has its module loaded. Idempotent."""
    misfit = unfit_for("seeded_generator", check_hooks("seeded_generator"))
    if misfit:
        logger.warning(
            "Paceline: the seed fix is off, because this vLLM does not fit its hooks: %s",
            misfit,
        )
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    stock: Any = runner._bookkeeping_sync
    if hasattr(stock, _MARK):
        return

    @functools.wraps(stock)
    def bookkeeping(self: Any, *args: Any, **kwargs: Any) -> Any:
        generators = self.input_batch.generators
        hidden = discarded_generators(generators, self.discard_request_mask.np)
        if not hidden:
            return stock(self, *args, **kwargs)
        for row in hidden:
            del generators[row]
        try:
            return stock(self, *args, **kwargs)
        finally:
            generators.update(hidden)

    setattr(bookkeeping, _MARK, True)
    runner._bookkeeping_sync = bookkeeping


def discarded_generators(generators: dict[int, Any], is_discarded: Any) -> dict[int, Any]:
    """Return the generators, by row, of the rows whose sampled token is discarded.

    `is_discarded` has shape (max_num_requests,).
    """
    return {row: generator for row, generator in generators.items() if is_discarded[row]}
