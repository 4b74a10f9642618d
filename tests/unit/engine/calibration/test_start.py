"""How a start uses a stored table, and that no fault stops it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.engine.calibration import start
from paceline.engine.calibration.measuring import measure
from paceline.engine.calibration.plan import Plan, plan_for
from paceline.engine.calibration.start import (
    Calibration,
    check_stored,
    prefer_faster,
    render_measurement,
)
from paceline.engine.calibration.store import StoredCosts
from paceline.engine.calibration.suitability import why_unsuitable
from paceline.governor.costs.cost_table import CostTable
from unit.engine.calibration.known_engine import LIMITS, KnownEngine


class ExpensiveDrafts(KnownEngine):
    """Drafting takes twice as long as in the engine of the table."""

    def run(self, verified_tokens: int, draft_length: int) -> float:
        return super().run(verified_tokens, 2 * draft_length)


def known_plan() -> Plan:
    plan = plan_for(LIMITS)
    assert plan is not None
    return plan


def stored_costs() -> StoredCosts:
    engine = KnownEngine()
    found = measure(engine, known_plan(), budget_s=100.0, clock=engine.clock)
    return StoredCosts(found.samples.table(), "2026-11-29")


def test_a_slower_machine_keeps_the_stored_table() -> None:
    stored = stored_costs()
    found = check_stored(KnownEngine(times=1.5), known_plan(), stored)
    assert found is not None
    assert found.table == stored.table
    assert found.slowdown == pytest.approx(1.5)
    assert found.message.startswith("the costs stored on 2026-11-29 hold: 5 checks in ")
    assert found.message.endswith(" s, steps take 1.50 times as long")


def test_other_proportions_make_the_stored_table_useless() -> None:
    assert check_stored(ExpensiveDrafts(), known_plan(), stored_costs()) is None


def scaled(table: CostTable, times: float) -> CostTable:
    return replace(table, verify_s=tuple(tuple(times * s for s in row) for row in table.verify_s))


def test_a_table_measured_beside_other_work_does_not_replace_a_faster_one() -> None:
    """Other work only lengthens a step: twice as long as in the stored table."""
    stored = stored_costs()
    found = prefer_faster(Calibration(scaled(stored.table, 2.0), "measured"), stored)
    assert (found.table, found.is_new) == (stored.table, False)
    assert found.message == (
        "the costs stored on 2026-11-29 are kept, because steps take 2.00 times as long now"
    )


@pytest.mark.parametrize("times", [0.5, 1.05])
def test_a_table_that_is_about_as_fast_or_faster_replaces_the_stored_one(times: float) -> None:
    stored = stored_costs()
    measured = Calibration(scaled(stored.table, times), "measured")
    assert prefer_faster(measured, stored) is measured


def test_a_stored_table_without_the_measured_sizes_is_replaced() -> None:
    stored = stored_costs()
    fewer = replace(
        stored.table,
        sizes=stored.table.sizes[:2],
        verify_s=stored.table.verify_s[:2],
        draft_s=stored.table.draft_s[:2],
    )
    measured = Calibration(scaled(stored.table, 2.0), "measured")
    assert prefer_faster(measured, StoredCosts(fewer, "2026-11-29")) is measured


def test_the_log_says_which_sizes_had_no_time() -> None:
    """At 20 ms per token and request, 16 requests do not fit."""
    engine = KnownEngine(times=20.0)
    found = measure(engine, known_plan(), budget_s=10.0, clock=engine.clock)
    assert render_measurement(found) == (
        f"measured 14 kinds of steps in {engine.now_s:.1f} s, without time for 16 requests"
    )


@pytest.mark.parametrize(
    ("executor", "reason"),
    [
        (None, "because the engine's executor was not found"),
        (object(), "because measuring them failed"),
    ],
)
def test_a_fault_is_logged_and_the_engine_starts(
    executor: object,
    reason: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(part: str) -> dict[str, str]:
        raise RuntimeError(f"no hooks of {part} today")

    monkeypatch.setattr(start, "check_hooks", fail)
    with caplog.at_level(logging.INFO):
        found = start.load_or_measure(
            SimpleNamespace(),
            SimpleNamespace(),
            executor,
            max_draft_length=8,
            allowed_lengths=None,
            follows_length=True,
            folder=tmp_path,
        )
    assert found is None
    assert reason in caplog.text


class UniProcExecutor:
    """vLLM's executor of this name, as far as suitability reads it."""


def config(**changes: Any) -> SimpleNamespace:
    """vLLM's configuration of a suitable engine, but for `changes`."""
    parallel = SimpleNamespace(
        pipeline_parallel_size=changes.pop("stages", 1),
        data_parallel_size=1,
        decode_context_parallel_size=1,
        prefill_context_parallel_size=1,
        enable_eplb=False,
    )
    fields: dict[str, Any] = {
        "use_v2_model_runner": False,
        "scheduler_config": SimpleNamespace(async_scheduling=changes.pop("is_async", False)),
        "parallel_config": parallel,
        "speculative_config": SimpleNamespace(method=changes.pop("method", "draft_model")),
        "model_config": SimpleNamespace(is_multimodal_model=changes.pop("has_images", False)),
        "kv_transfer_config": None,
        "ec_transfer_config": None,
        "lora_config": None,
    }
    return SimpleNamespace(**fields | changes)


class FullAttentionSpec:
    """vLLM's class of this name."""


CACHE = SimpleNamespace(kv_cache_groups=[SimpleNamespace(kv_cache_spec=FullAttentionSpec())])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"use_v2_model_runner": True}, "vLLM uses its Model Runner V2"),
        ({"is_async": True}, "scheduling is asynchronous"),
        ({"stages": 2}, "the model has several pipeline stages"),
        ({"method": "suffix"}, "the drafter is suffix"),
        ({"has_images": True}, "the model takes images or audio"),
        ({"lora_config": object()}, "requests may use LoRA adapters"),
        ({"kv_transfer_config": object()}, "the KV cache is transferred to other engines"),
    ],
)
def test_an_engine_with_more_state_than_trial_steps_imitate_is_unsuitable(
    changes: dict[str, Any], reason: str
) -> None:
    assert why_unsuitable(config(**changes), CACHE, UniProcExecutor()) == reason


def test_other_executors_and_caches_are_unsuitable() -> None:
    assert why_unsuitable(config(), CACHE, object()) == "the executor is object"
    several = SimpleNamespace(kv_cache_groups=CACHE.kv_cache_groups * 2)
    reason = "the KV cache is not one group of full attention"
    assert why_unsuitable(config(), several, UniProcExecutor()) == reason
