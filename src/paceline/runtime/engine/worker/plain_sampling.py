"""Sample a step that verifies no draft token with vLLM's plain sampler.

vLLM uses the rejection sampler for every step of an engine that may speculate, even for steps
without drafts. It then verifies nothing but still draws noise over the vocabulary for every request
(about 1.5 ms a step at 8 requests on a small CPU, a third of a small target's step). The plain
sampler, which the rejection sampler itself calls for its bonus tokens, gives the same result over
the same rows. Only vLLM's holder of thinking budgets distinguishes the two calls, and handles this
one wrongly; `fixes.thinking_budget` replaces it.
"""

from __future__ import annotations

from typing import Any

from paceline.runtime.engine.compat.wrapping import Wrappers


def _sample(stock: Any, runner: Any, logits: Any, spec_decode_metadata: Any) -> Any:
    if spec_decode_metadata is not None and spec_decode_metadata.max_spec_len == 0:
        spec_decode_metadata = None
    return stock(runner, logits, spec_decode_metadata)


WRAPPERS = Wrappers(
    "plain_sampling",
    {"vllm.v1.worker.gpu_model_runner:GPUModelRunner._sample": _sample},
    otherwise="Steps without drafts use the rejection sampler.",
)
