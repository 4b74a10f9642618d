"""Which drivers run programs of which CUDA release."""

from __future__ import annotations

import pytest

from paceline.foundation.compatibility.cuda_drivers import (
    can_run,
    oldest_driver,
    parse_cuda_version,
)


@pytest.mark.parametrize(
    ("driver", "built_with", "runs"),
    [
        ((13, 0), (12, 8), True),
        ((12, 2), (12, 8), True),
        ((12, 8), (13, 0), False),
        ((10, 1), (10, 2), False),
        ((10, 2), (10, 1), True),
    ],
)
def test_minor_versions_are_compatible_from_cuda_11_on(
    driver: tuple[int, int], built_with: tuple[int, int], runs: bool
) -> None:
    assert can_run(driver, built_with) is runs


def test_the_oldest_driver_of_a_release() -> None:
    assert [oldest_driver((major, 0)) for major in (11, 12, 13, 14)] == ["450", "525", "580", None]


def test_versions_are_read() -> None:
    assert parse_cuda_version(" 13.0\n") == (13, 0)
    assert parse_cuda_version("N/A") is None
    assert parse_cuda_version("") is None
