"""Read a server's own count of draft tokens from its metrics page. Pure."""

from __future__ import annotations

import math

METRICS_PATH = "/metrics"
_ENGINE = "vllm:"
_SPECULATION = "vllm:spec_decode"
_NAME = f"{_SPECULATION}_num_draft_tokens_total"


def read_num_drafted(page: str) -> float | None:
    """The sum over all engines, from the Prometheus text format; None without this counter, or if
    it is not a finite number.

    vLLM has it only with speculation, so its page without any metric of speculation means 0.
    """
    found = []
    for line in page.splitlines():
        if line.startswith((f"{_NAME}{{", f"{_NAME} ")):
            words = line[len(_NAME) :].rpartition("}")[2].split()
            try:
                found.append(float(words[0]))
            except (IndexError, ValueError):
                continue
    if not found and f"\n{_ENGINE}" in f"\n{page}" and _SPECULATION not in page:
        return 0.0
    return sum(found) if found and all(map(math.isfinite, found)) else None
