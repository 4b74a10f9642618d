"""Read a server's own count of draft tokens from its metrics page. Pure."""

from __future__ import annotations

METRICS_PATH = "/metrics"
_NAME = "vllm:spec_decode_num_draft_tokens_total"


def read_num_drafted(page: str) -> float | None:
    """The sum over all engines, from the Prometheus text format; None without this counter."""
    found = []
    for line in page.splitlines():
        if line.startswith((f"{_NAME}{{", f"{_NAME} ")):
            words = line[len(_NAME) :].rpartition("}")[2].split()
            try:
                found.append(float(words[0]))
            except (IndexError, ValueError):
                continue
    return sum(found) if found else None
