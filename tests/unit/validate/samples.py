"""Results and documents for tests of the report."""

from __future__ import annotations

from paceline.foundation.results.environment import describe_environment
from paceline.operations.validate.report.document import Server, ValidationDocument, make_document
from paceline.operations.validate.tiers import tiers
from paceline.operations.validate.values import CheckResult, Figure, Group, Status


def result(
    check_id: str, status: Status = Status.PASS, /, *, is_final: bool = True, **figures: Figure
) -> CheckResult:
    return CheckResult(
        id=check_id,
        group=Group.API,
        proves=f"{check_id} works",
        status=status,
        reason=f"<{check_id}> was observed",
        figures=figures,
        seconds=0.5,
        is_final=is_final,
    )


def document(*checks: CheckResult, required: tuple[str, ...] = ()) -> ValidationDocument:
    return make_document(
        checks,
        server=Server("http://127.0.0.1:8000", None, "vllm", "m", 4096, "0.32.0"),
        tier=tiers()["local"],
        required=required,
        config={"only": []},
        environment=describe_environment(["paceline", "validate", "--api-key", "secret"]),
    )
