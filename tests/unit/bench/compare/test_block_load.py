"""Both arms of a round get the same requests; each round takes the next prompts."""

from __future__ import annotations

import json

from paceline.foundation.workloads import Prompt, SamplingSettings
from paceline.workbench.bench.compare.block_load import BlockLoad

PROMPTS = [Prompt("t", None, f"prompt {i}", 8) for i in range(5)]


def load(num_requests: int = 2, rate_per_s: float | None = None) -> BlockLoad:
    sampling = SamplingSettings("", 0.5, None, None, 7, {"top_k": 3})
    concurrency = None if rate_per_s else 1
    return BlockLoad(PROMPTS, sampling, num_requests, concurrency, rate_per_s, seed=7)


def bodies(round_index: int, **extra: object) -> list[dict[str, object]]:
    return [json.loads(spec.body) for spec in load().specs(round_index, "m", extra)]


def test_rounds_take_the_next_prompts_and_wrap_around() -> None:
    assert [body["prompt"] for body in bodies(0)] == ["prompt 0", "prompt 1"]
    assert [body["prompt"] for body in bodies(2)] == ["prompt 4", "prompt 0"]


def test_seeds_differ_between_requests_and_not_between_arms() -> None:
    assert [body["seed"] for body in bodies(1)] == [9, 10]
    assert bodies(1) == bodies(1)


def test_further_fields_join_those_of_the_user() -> None:
    body = bodies(0, cache_salt="x")[0]
    assert (body["top_k"], body["cache_salt"], body["model"]) == (3, "x", "m")


def test_a_round_has_one_arrival_schedule_of_its_own() -> None:
    open_loop = load(num_requests=4, rate_per_s=2.0)
    assert open_loop.offsets_s(3) == open_loop.offsets_s(3)
    assert open_loop.offsets_s(3) != open_loop.offsets_s(4)
    assert len(open_loop.offsets_s(3)) == 4
