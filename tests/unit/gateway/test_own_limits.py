"""Limits of the gateway's own process."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from paceline.runtime.gateway.own_limits import descriptors_needed, explain_shortage, is_own_limit
from paceline.runtime.gateway.settings import (
    AdmissionSettings,
    FleetSettings,
    GatewaySettings,
    ReplicaEntry,
)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EMFILE, True),
        (errno.ENFILE, True),
        (errno.EADDRNOTAVAIL, True),
        (errno.ENOMEM, True),
        (errno.ECONNREFUSED, False),
        (errno.EHOSTUNREACH, False),
        (errno.ENOENT, False),
    ],
)
def test_only_what_this_process_lacks_is_its_own_limit(number: int, expected: bool) -> None:
    assert is_own_limit(OSError(number, "x")) is expected
    assert not is_own_limit(ValueError("x"))


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    program = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
from paceline.runtime.gateway.own_limits import raise_descriptor_limit
assert raise_descriptor_limit() == 300, raise_descriptor_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, 300)
assert raise_descriptor_limit() == 300
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_slot_takes_two_descriptors_and_every_place_in_the_queue_one() -> None:
    entries = (
        ReplicaEntry(url="http://a:1", max_in_flight=10),
        ReplicaEntry(url="http://b:1"),
    )
    settings = GatewaySettings(
        admission=AdmissionSettings(max_in_flight=100, max_queue=50), fleet=FleetSettings(entries)
    )
    spare = 256
    assert descriptors_needed(settings, num_local_replicas=2) == 2 * (10 + 3 * 100) + 50 + spare


def test_a_limit_that_is_too_low_is_explained() -> None:
    assert explain_shortage(limit=1792, needed=1792) is None
    message = explain_shortage(limit=1024, needed=1792)
    assert message is not None
    for part in ("1024", "1792", "ulimit -n", "admission.max_in_flight", "admission.max_queue"):
        assert part in message
