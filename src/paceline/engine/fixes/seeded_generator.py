"""How does a request with a seed survive being prefilled in pieces on a CPU?

vLLM samples a token for every piece of a prompt and throws all but the last away. For a request
with a seed it then turns its generator back by one draw (`GPUModelRunner._bookkeeping_sync`:
`gen.set_offset(gen.get_offset() - 4)`). Generators on CPUs have no offset: the call raises, and one
long prompt with a seed ends the engine (seen in vLLM 0.32.0, with and without speculation).

The repair hides the generators of thrown-away tokens from that method. They are not turned back: a
seeded request whose prompt was split has made one draw more per piece, so its sample is still from
the right distribution, but another one than unsplit.

It is put in place in each worker, when its model runner is made (`worker_hook`).
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.worker.worker_hook import call_in_workers

logger = logging.getLogger("vllm.paceline.generator_repair")

_MARK = "__paceline_generators__"


def apply() -> bool:
    """Arrange for the repair in this process's workers; True when it is arranged.

    Does nothing on other platforms. Twice is harmless.
    """
    return call_in_workers(_mend_bookkeeping)


def _mend_bookkeeping() -> None:
    """Wrap the method in a process that has its module loaded. Twice is harmless."""
    misfit = unfit_for("generator_repair", check_hooks("generator_repair"))
    if misfit:
        logger.warning("Paceline: vLLM's handling of seeds stays as it is: %s", misfit)
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
    """The generators by row, of the rows whose sampled token is thrown away.

    `is_discarded` has shape (max_num_requests,).
    """
    return {row: generator for row, generator in generators.items() if is_discarded[row]}
