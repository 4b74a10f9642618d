"""The claims of docs/how-to/validate.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/validate.md"
NOT_MEASURED = {
    "setting": ("every 5 s",),
    "without a raw result": ("in two of 24 runs before",),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    summary = read("validate-faults-2026-11-24.json")["summary"]
    yield claim(
        "{num_faults} faults, injected {num_injected} times, of which {num_found} were found "
        "by the check named for them",
        **summary,
    )
    yield claim("so that {num_checks_proved} checks have failed at least once", **summary)
    yield claim(
        "{num_clean_runs} runs without a fault, {num_clean_runs_audited} of them with the audit",
        **summary,
    )
    yield claim(
        "{num_clean_checks_passed:,} checks passed, {num_false_failures} failed, and "
        "{num_unexpected_skips} were skipped without a reason",
        **summary,
    )
    result = read("validate-bundled-2026-11-28.json")
    summary = result["summary"]
    yield claim("{num_faults} faults, of which {num_found} were found", **summary)
    yield claim(
        "{num_clean_runs} runs of the command took {median:.0f} s in the median and "
        "{longest_run_s:.0f} s at most; at least {fewest_passed} checks passed in each, and "
        "{num_false_failures} failed",
        median=statistics.median(run["seconds"] for run in result["clean_runs"]),
        **summary,
    )
