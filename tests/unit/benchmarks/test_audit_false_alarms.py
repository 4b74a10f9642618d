"""What the run of false alarms calls wrong."""

from __future__ import annotations

import pytest

from benchmarks.audit_false_alarms import find_wrong


def of(num_lossy: int, num: int = 200) -> dict[str, int]:
    return {"num_audits": num, "num_lossy": num_lossy}


@pytest.mark.parametrize(
    ("summary", "wrong"),
    [
        ({"no_defect": of(2), "off_by_one": of(20, 20)}, []),
        ({"no_defect": of(3)}, ["3 of 200 right servers are called lossy"]),
        ({"no_defect": of(0), "off_by_one": of(19, 20)}, ["off_by_one: 1 of 20 are not found"]),
    ],
)
def test_alarms_beyond_the_stated_rate_and_missed_defects_are_wrong(
    summary: dict[str, dict[str, int]], wrong: list[str]
) -> None:
    assert find_wrong(summary) == wrong
