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

from typing import Any

from paceline.runtime.engine.compat.wrapping import Wrappers


def discarded_generators(generators: dict[int, Any], is_discarded: Any) -> dict[int, Any]:
    """Return the generators, by row, of the rows whose sampled token is discarded.

    `is_discarded` has shape (max_num_requests,).
    """
    return {row: generator for row, generator in generators.items() if is_discarded[row]}


def _hide_discarded(stock: Any, runner: Any, *arguments: Any, **named: Any) -> Any:
    generators = runner.input_batch.generators
    hidden = discarded_generators(generators, runner.discard_request_mask.np)
    for row in hidden:
        del generators[row]
    try:
        return stock(runner, *arguments, **named)
    finally:
        generators.update(hidden)


WRAPPERS = Wrappers(
    "seeded_generator",
    {"vllm.v1.worker.gpu_model_runner:GPUModelRunner._bookkeeping_sync": _hide_discarded},
    name="the seed fix",
)
