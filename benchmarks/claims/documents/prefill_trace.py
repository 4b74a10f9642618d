"""The claims of docs/experiments/prefill-trace.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult
from benchmarks.claims.documents.shifting_trace import interleaved_claims

DOCUMENT = "docs/experiments/prefill-trace.md"
NOT_MEASURED = {
    "setting": ("vLLM 0.32.0", "of 60 to 150 output tokens", "float32, two Intel cores"),
    "target": ("≥ 97 %", "≥ 85 %", "≥ -2 %"),
}
RESULT = "governor-interleaved-twin-model-prefill-2026-11-23.json.gz"


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    yield from interleaved_claims(read(RESULT))
