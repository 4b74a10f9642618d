"""The claims of docs/how-to/several-gpus.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/several-gpus.md"
NOT_MEASURED: dict[str, tuple[str, ...]] = {}
_TENSOR_WITH_DRAFTS = "tensor parallel 2, drafts"


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("distributed-bundled-2026-11-28.json.gz")
    yield claim(
        "{num_equal_answers} of {num_answers} answers, {num_equal_tokens:,} tokens, equal those of "
        "one process without drafts, with {num_near_ties} near-ties",
        **result["total"],
    )
    yield claim(
        "under the governor made {num_steps} steps for {num_tokens:,} tokens", **_drafted(result)
    )
    twin = read("distributed-twin-2026-11-28.json.gz")
    yield claim(
        "{num_equal_answers} of {num_answers} answers, {num_equal_tokens:,} tokens and "
        "{num_near_ties} near-ties again, and {num_steps} steps",
        **twin["total"],
        num_steps=_drafted(twin)["num_steps"],
    )


def _drafted(result: Mapping[str, Any]) -> dict[str, int]:
    (run,) = [run for run in result["runs"] if run["arm"] == _TENSOR_WITH_DRAFTS]
    return {"num_steps": run["governor"]["steps_total"], "num_tokens": run["num_tokens"]}
