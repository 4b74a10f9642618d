"""How many processes serve the data port when nobody says?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.config import Settings
from paceline.engine.launch.hardware import Hardware
from paceline.gateway import GatewaySettings
from paceline.serve.plan import gateway_settings
from paceline.serve.workers import choose_num_workers

GPU_HOST = Hardware(
    device="gpu",
    architecture="x86_64",
    cpu_flags=frozenset(),
    cpu_ids=tuple(range(32)),
    cpu_quota=None,
    available_memory_bytes=2**36,
    openmp_library=None,
)


def chosen(hardware: Hardware, **sections: dict[str, object]) -> tuple[int, str]:
    return choose_num_workers(Settings.model_validate(sections), hardware)


@pytest.mark.parametrize(
    ("num_cores", "number"), [(1, 1), (7, 1), (8, 1), (15, 1), (16, 2), (24, 3), (32, 4), (192, 4)]
)
def test_one_for_every_eight_cores_and_at_most_four(num_cores: int, number: int) -> None:
    assert chosen(replace(GPU_HOST, cpu_ids=tuple(range(num_cores))))[0] == number


def test_a_quota_counts_as_cores() -> None:
    assert chosen(replace(GPU_HOST, cpu_quota=16.0))[0] == 2


def test_engines_that_compute_on_the_cpus_are_left_the_cores() -> None:
    number, why = chosen(replace(GPU_HOST, device="cpu"))
    assert (number, why) == (1, "one process serves the data port: the engines need the cores")


def test_without_engines_of_its_own_the_gateway_has_the_cores() -> None:
    assert chosen(replace(GPU_HOST, device="cpu"), engine={"replicas": 0})[0] == 4


def test_a_number_that_is_given_is_taken() -> None:
    assert chosen(GPU_HOST, server={"workers": 7}) == (7, "server.workers is 7")


def test_the_number_reaches_the_gateway() -> None:
    assert gateway_settings(Settings(), 3).workers == 3
    with pytest.raises(ValueError, match="workers is 0; it must be at least 1"):
        GatewaySettings(workers=0)
