"""Every finding is made under its condition, and each symptom has the remedies it must know."""

from __future__ import annotations

import pytest

from paceline.operations.doctor.checks import CHECKS, judge
from paceline.operations.doctor.values import CostUnit
from unit.doctor.conditions import CONDITIONS

SYMPTOMS = {
    "the KV cache is near 100 %, and requests wait or are preempted": (
        "kv-cache-full",
        ("max_num_seqs", "max_model_len", "quantize the weights or the KV cache", "prefix caching"),
    ),
    "speculation costs more than it gains": (
        "speculation-loses",
        ("governor", "draft less", "smaller model of the same family", "EAGLE", "off"),
    ),
    "the engine does not start: versions": (
        "log-broken-install", ("versions that fit", "lock file", "image"),
    ),
    "the engine does not start: driver": ("log-driver-too-old", ("image", "driver")),
    "the engine does not start: memory": (
        "log-context-does-not-fit", ("max_model_len", "quantize"),
    ),
    "one replica is busier than the rest": (
        "load-imbalance", ("Route by load", "long contexts a pool"),
    ),
    "the first requests are slow": (
        "first-requests-slow", ("warm_up", "heartbeat", "start-up probe"),
    ),
    "P99 rises with the throughput": (
        "prefill-stalls", ("max_num_batched_tokens", "paces prefill"),
    ),
    "tensor parallelism without NVLink": (
        "log-all-reduce-slow",
        ("smaller tensor_parallel_size", "pipeline parallelism between nodes", "fits one GPU"),
    ),
    "out of memory": (
        "log-out-of-memory", ("0.85 to 0.90", "CUDA graphs", "max_model_len"),
    ),
    "an illegal memory access with an FP8 cache and a draft of another family": (
        "log-fp8-kv-with-draft", ("same family", "kv_cache_dtype", "driver and CUDA versions"),
    ),
    "duplicate tokens in a stream": ("duplicate-tokens", ("proxy", "engine's own port")),
}  # fmt: skip
"""Id of the finding, and what its remedy must name."""


def test_every_finding_has_a_condition() -> None:
    assert set(CONDITIONS) == {name for check in CHECKS for name in check.finding_ids}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_gives_its_finding(name: str) -> None:
    found = [one for one in judge(CONDITIONS[name]).findings if one.id == name]
    assert found
    for finding in found:
        assert finding.summary.endswith(".")
        assert finding.cause.endswith(".")
        assert finding.evidence
        assert finding.remedy


def test_lost_tokens_are_stated_with_those_that_are_given() -> None:
    """What is lost has a price only beside what is given; the share is of both together."""
    costs = {
        finding.id: finding.cost
        for condition in CONDITIONS.values()
        for finding in judge(condition).findings
        if finding.cost.unit is CostUnit.TOKENS_PER_S
    }
    assert {"speculation-loses", "draft-too-long", "draft-too-short", "draft-drift"} <= set(costs)
    for cost in costs.values():
        assert cost.present_tokens_per_s is not None
        assert cost.amount is not None
        possible = cost.present_tokens_per_s + cost.amount
        assert cost.share == pytest.approx(max(0.0, cost.amount / possible))


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_a_symptom_has_the_remedies_that_it_must_know(symptom: str) -> None:
    name, words = SYMPTOMS[symptom]
    finding = next(one for one in judge(CONDITIONS[name]).findings if one.id == name)
    assert [word for word in words if word not in finding.remedy] == []
