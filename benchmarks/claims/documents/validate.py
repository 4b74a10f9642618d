"""The claims of docs/how-to/validate.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/validate.md"
NOT_MEASURED: dict[str, tuple[str, ...]] = {}


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
