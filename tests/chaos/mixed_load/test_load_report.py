"""A run under faults passes only if its faults were injected and struck streams."""

from __future__ import annotations

import pytest

from chaos.mixed_load.load_report import find_run_failures


@pytest.mark.parametrize(
    ("num_injected", "num_struck", "num_errors", "failures"),
    [
        (200, 1, 0, []),
        (199, 1, 0, ["199 of 200 faults were injected"]),
        (200, 0, 0, ["no stream was struck by a fault"]),
        (200, 1, 2, ["2 errors"]),
        (0, 0, 1, ["0 of 200 faults were injected", "no stream was struck by a fault", "1 errors"]),
    ],
)
def test_a_run_without_effect_has_not_passed(
    num_injected: int, num_struck: int, num_errors: int, failures: list[str]
) -> None:
    found = find_run_failures(
        num_ordered=200, num_injected=num_injected, num_struck=num_struck, num_errors=num_errors
    )
    assert found == failures
