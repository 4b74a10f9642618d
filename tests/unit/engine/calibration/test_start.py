"""How a start uses a stored table, and that no fault stops it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.engine.calibration import start
from paceline.runtime.engine.calibration.measuring import measure
from paceline.runtime.engine.calibration.plan import Plan, plan_for
from paceline.runtime.engine.calibration.start import (
    Calibration,
    check_stored,
    find_costs,
    prefer_faster,
    render_measurement,
)
from paceline.runtime.engine.calibration.store import StoredCosts
from paceline.runtime.engine.calibration.suitability import why_unsuitable
from unit.engine.calibration.known_engine import (
    LIMITS,
    DisturbedEngine,
    FastNowAndThen,
    KnownEngine,
)


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


def found_in(engine: KnownEngine, stored: StoredCosts | None) -> Calibration:
    found = find_costs(engine, known_plan(), stored, clock=engine.clock)
    assert found is not None
    return found


def test_a_slower_machine_keeps_the_stored_table() -> None:
    """In the table, 1 request decodes in 1 ms and drafts 8 in 9 ms, 4 decode in 4 ms, 16 verify 8
    or draft 8 in 144 ms: 302 ms. Four steps of each take 1.5 times as long now."""
    stored = stored_costs()
    found = found_in(KnownEngine(times=1.5), stored)
    assert (found.table, found.is_new) == (stored.table, False)
    assert found.message == (
        "those stored on 2026-11-29 hold: 5 checks in 1.8 s, steps take 1.50 times as long as then"
    )


def test_other_proportions_make_the_stored_table_useless() -> None:
    """Half of the drafting is gone: the table was measured where drafts were more expensive."""
    engine = ExpensiveDrafts()
    stored = measure(engine, known_plan(), budget_s=100.0, clock=engine.clock).samples.table()
    found = found_in(KnownEngine(), StoredCosts(stored, "2026-11-29"))
    assert found.is_new
    assert found.table == found_in(KnownEngine(), None).table


@pytest.mark.parametrize("times", [1.0, 4.0, 10.0])
def test_checks_and_measurement_take_ten_seconds_together(times: float) -> None:
    """The table was measured where drafts were free, so no check agrees with it."""
    free = CostTable((1, 2), (0, 8), ((1e-3, 9e-3), (2e-3, 18e-3)), ((0, 0), (0, 0)), 256)
    engine = KnownEngine(times=times)
    assert found_in(engine, StoredCosts(free, "2026-11-29")).is_new
    assert engine.now_s < 10.5


def scaled(table: CostTable, times: float) -> CostTable:
    return replace(
        table,
        verify_s=tuple(tuple(times * s for s in row) for row in table.verify_s),
        draft_s=tuple(tuple(times * s for s in row) for row in table.draft_s),
    )


def part_of(table: CostTable, *, num_sizes: int, num_lengths: int) -> CostTable:
    """The first sizes and lengths."""

    def cells(rows: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        return tuple(row[:num_lengths] for row in rows[:num_sizes])

    return replace(
        table,
        sizes=table.sizes[:num_sizes],
        lengths=table.lengths[:num_lengths],
        verify_s=cells(table.verify_s),
        draft_s=cells(table.draft_s),
    )


@pytest.mark.parametrize("kind", [FastNowAndThen, DisturbedEngine])
def test_single_steps_that_are_faster_or_slower_leave_the_stored_table(
    kind: type[KnownEngine],
) -> None:
    engine = kind()
    assert check_stored(engine, known_plan(), stored_costs(), clock=engine.clock) is not None


def test_a_table_measured_beside_other_work_does_not_replace_a_faster_one() -> None:
    """Other work only lengthens a step: twice as long as in the stored table."""
    stored = stored_costs()
    found = prefer_faster(Calibration(scaled(stored.table, 2.0), "measured"), stored)
    assert (found.table, found.is_new) == (stored.table, False)
    assert found.message == (
        "those stored on 2026-11-29 are kept: measured anew, steps take 2.00 times as long"
    )


@pytest.mark.parametrize("times", [0.5, 1.05])
def test_a_table_that_is_about_as_fast_or_faster_replaces_the_stored_one(times: float) -> None:
    stored = stored_costs()
    measured = Calibration(scaled(stored.table, times), "measured")
    assert prefer_faster(measured, stored) is measured


def test_slower_drafts_alone_count_too() -> None:
    stored = stored_costs()
    slow = replace(stored.table, draft_s=scaled(stored.table, 3.0).draft_s)
    assert prefer_faster(Calibration(slow, "measured"), stored).table == stored.table


@pytest.mark.parametrize(("times", "is_new"), [(2.0, False), (1.05, False), (0.8, True)])
@pytest.mark.parametrize(("num_sizes", "num_lengths"), [(3, 5), (5, 3), (3, 3)])
def test_a_coarser_table_replaces_the_stored_one_only_if_it_is_clearly_faster(
    times: float, is_new: bool, num_sizes: int, num_lengths: int
) -> None:
    stored = stored_costs()
    coarser = part_of(stored.table, num_sizes=num_sizes, num_lengths=num_lengths)
    found = prefer_faster(Calibration(scaled(coarser, times), "measured"), stored)
    assert found.is_new is is_new
    assert is_new or found.message == (
        "those stored on 2026-11-29 are kept: measured anew, with fewer kinds, "
        f"steps take {times:.2f} times as long"
    )


@pytest.mark.parametrize(("num_sizes", "num_lengths"), [(2, 5), (5, 3)])
def test_a_stored_table_without_all_measured_cells_is_replaced(
    num_sizes: int, num_lengths: int
) -> None:
    stored = stored_costs()
    fewer = part_of(stored.table, num_sizes=num_sizes, num_lengths=num_lengths)
    measured = Calibration(scaled(stored.table, 2.0), "measured")
    assert prefer_faster(measured, StoredCosts(fewer, "2026-11-29")) is measured


def test_a_stored_table_at_another_context_is_replaced() -> None:
    stored = stored_costs()
    short = replace(stored.table, context_tokens=16)
    measured = Calibration(scaled(stored.table, 2.0), "measured")
    assert prefer_faster(measured, StoredCosts(short, "2026-11-29")) is measured


def test_the_log_says_which_sizes_had_no_time() -> None:
    """At 20 ms per token and request, 16 requests do not fit."""
    engine = KnownEngine(times=20.0)
    found = measure(engine, known_plan(), budget_s=10.0, clock=engine.clock)
    assert render_measurement(found) == (
        f"measured 14 kinds of steps in {engine.now_s:.1f} s, "
        "and no time was left for 16 requests at once"
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
