"""What the checks read from an engine's command line."""

from __future__ import annotations

import json

import pytest

from paceline.runtime.serve.startup_checks.engine_launch import (
    VLLM_UTILIZATION,
    EngineLaunch,
    read_launch,
)


def test_without_flags_vllms_defaults_hold() -> None:
    launch = read_launch(("python", "-m", "vllm", "--model", "/m"))
    assert launch == EngineLaunch("/m", {})
    assert (launch.num_devices, launch.gpu_memory_utilization) == (1, VLLM_UTILIZATION)


def test_the_users_later_flags_win_in_all_spellings() -> None:
    launch = read_launch(
        (
            *("--model", "/m", "--dtype", "float32", "--kv-cache-memory-bytes", "1000"),
            *("--dtype=bfloat16", "-tp", "2", "--pipeline_parallel_size", "3", "-dp=4"),
            *("--gpu-memory-utilization", "0.8", "--max-model-len", "4096", "-n", "2"),
            *("--max-num-seqs", "16", "--max-num-batched-tokens", "512"),
            *("--kv-cache-dtype", "fp8", "--device-ids", "0,1"),
            *("-r", "1", "--master-addr=10.0.0.1", "--headless"),
        )
    )
    assert (launch.dtype, launch.kv_cache_dtype, launch.kv_cache_bytes) == ("bfloat16", "fp8", 1000)
    assert (launch.tensor_parallel, launch.pipeline_parallel, launch.data_parallel) == (2, 3, 4)
    assert (launch.num_devices, launch.num_nodes, launch.names_devices) == (6, 2, True)
    assert (launch.node_rank, launch.master_address, launch.is_headless) == (1, "10.0.0.1", True)
    assert (launch.gpu_memory_utilization, launch.max_model_len) == (0.8, 4096)
    assert (launch.max_num_seqs, launch.max_batched_tokens) == (16, 512)


@pytest.mark.parametrize(("given", "dtype"), [("half", "float16"), ("float", "float32")])
def test_a_dtype_has_two_names(given: str, dtype: str) -> None:
    assert read_launch(("--dtype", given)).dtype == dtype


@pytest.mark.parametrize("flags", [("--distributed-executor-backend", "ray"), ("-dpb", "ray")])
def test_ray_is_asked_for_by_two_flags(flags: tuple[str, str]) -> None:
    assert read_launch(flags).uses_ray
    assert not read_launch((flags[0], "mp")).uses_ray


@pytest.mark.parametrize(
    ("arguments", "unplanned"),
    [
        (("--cpu-offload-gb", "4"), ("--cpu-offload-gb",)),
        (("-q", "fp8"), ("-q",)),
        (("--max-model-len", "32k"), ("--max-model-len",)),
        (("--max-model-len", "-1"), ("--max-model-len",)),
        (("--max-model-len", "4096"), ()),
    ],
)
def test_flags_that_the_planner_does_not_follow_are_kept(
    arguments: tuple[str, ...], unplanned: tuple[str, ...]
) -> None:
    assert read_launch(arguments).unplanned_flags == unplanned


def test_only_a_draft_model_has_tokens_of_its_own() -> None:
    def draft_of(config: object) -> str | None:
        return read_launch(("--speculative-config", json.dumps(config))).draft_model

    assert draft_of({"method": "draft_model", "model": "/d"}) == "/d"
    assert draft_of({"method": "eagle3", "model": "/d"}) is None
    assert draft_of([1]) is None
    assert read_launch(("--speculative-config", "{")).draft_model is None
    assert read_launch(("--spec-method", "draft_model", "--spec-model", "/d")).draft_model == "/d"
