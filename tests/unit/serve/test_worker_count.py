"""The default number of processes that serve the data port."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.runtime.config import Settings
from paceline.runtime.engine.launch.hardware import Hardware
from paceline.runtime.gateway import GatewaySettings
from paceline.runtime.serve.plan import gateway_settings
from paceline.runtime.serve.worker_count import choose_num_workers

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


def test_engines_on_the_cpu_keep_the_cores() -> None:
    number, reason = chosen(replace(GPU_HOST, device="cpu"))
    assert (number, reason) == (1, "one process serves the data port: the engines need the cores")


def test_without_local_engines_the_gateway_uses_the_cores() -> None:
    assert chosen(replace(GPU_HOST, device="cpu"), engine={"replicas": 0})[0] == 4


def test_a_configured_number_is_used() -> None:
    assert chosen(GPU_HOST, server={"workers": 7}) == (7, "server.workers is 7")


def test_the_number_is_in_the_gateway_settings() -> None:
    assert gateway_settings(Settings(), 3).workers == 3
    with pytest.raises(ValueError, match="workers is 0; it must be at least 1"):
        GatewaySettings(workers=0)
