"""`load_or_measure`: the costs of one engine's steps, at its start.

Never raises, and leaves the workers as it found them: where the costs cannot be measured, the log
says why and the governor learns them while it serves.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.engine.calibration.identity import identity_of
from paceline.runtime.engine.calibration.measuring import Measurement, TrialSteps, measure
from paceline.runtime.engine.calibration.plan import Plan, StepKind, plan_for
from paceline.runtime.engine.calibration.recheck import MAX_ATTEMPTS, REPEATS, judge, kinds_to_check
from paceline.runtime.engine.calibration.store import CostStore, StoredCosts
from paceline.runtime.engine.calibration.suitability import limits_of, why_unsuitable
from paceline.runtime.engine.calibration.trial_steps import VllmTrialSteps, misfit_of_workers
from paceline.runtime.engine.compat.checks import check_hooks, unfit_for

logger = logging.getLogger("vllm.paceline.calibration")

_BUDGET_S = 10.0
"""For the checks of a stored table and a new measurement together."""
_CHECK_BUDGET_S = 3.0
"""Of that, for the checks, so that enough is left to measure: one round at most of the slowest
steps that are checked."""
_CLEARLY_FASTER = 0.9
_LEAST_SIZES = 2
"""With one size, a table would say that further requests cost nothing."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The costs of an engine's steps, and how they were found."""

    table: CostTable
    message: str
    """For the log: "measured 36 kinds of steps in 7.8 s"."""
    is_new: bool = True
    """Whether the table was measured now."""


def load_or_measure(
    vllm_config: Any,
    kv_cache_config: Any,
    executor: Any,
    *,
    max_draft_length: int,
    allowed_lengths: tuple[int, ...] | None,
    follows_length: bool,
    folder: Path,
) -> Calibration | None:
    """Return the stored table if it still holds, else a new one; None, logged, without either.

    `executor` is that of the engine core; its workers must have no requests. `follows_length`: the
    drafter drafts as many tokens as a step says. Blocks for 10 s and some steps at most, checks
    included; the first use of a kernel may add to that.
    """
    try:
        why = _why_not(vllm_config, kv_cache_config, executor)
        if why:
            logger.info("Costs: learned while serving, because %s", why)
            return None
        limits = limits_of(
            vllm_config,
            kv_cache_config,
            max_draft_length=max_draft_length,
            allowed_lengths=allowed_lengths,
            follows_length=follows_length,
        )
        plan = plan_for(limits)
        if plan is None:
            logger.info(
                "Costs: learned while serving, because the KV cache is too small to measure"
            )
            return None
        store = CostStore(folder)
        identity = identity_of(
            vllm_config,
            max_draft_length=max_draft_length,
            allowed_lengths=allowed_lengths,
            executor=executor,
        )
        vocabulary = vllm_config.model_config.get_vocab_size()
        steps = VllmTrialSteps(executor, limits, vocabulary=vocabulary)
        try:
            found = find_costs(steps, plan, store.load(identity), clock=time.perf_counter)
            if found is not None and found.is_new:
                _save(store, identity, found.table)
        finally:
            steps.end()
    except Exception:
        logger.exception("Costs: learned while serving, because measuring them failed")
        return None
    if found is not None:
        logger.info("Costs: %s", found.message)
    return found


def _why_not(vllm_config: Any, kv_cache_config: Any, executor: object) -> str:
    if executor is None:
        return "the engine's executor was not found"
    misfit = unfit_for("calibration", check_hooks("calibration"))
    misfit = misfit or misfit_of_workers(executor)
    if misfit:
        return f"this vLLM does not fit its hooks: {misfit}"
    return why_unsuitable(vllm_config, kv_cache_config, executor)


def find_costs(
    steps: TrialSteps, plan: Plan, stored: StoredCosts | None, *, clock: Callable[[], float]
) -> Calibration | None:
    """The stored table if it holds or is clearly faster, else a new one; None if steps are too slow
    to measure. Takes `_BUDGET_S` and some steps at most."""
    if stored is None:
        return _measure(steps, plan, budget_s=_BUDGET_S, clock=clock)
    started_s = clock()
    found = check_stored(steps, plan, stored, clock=clock)
    if found is not None:
        return found
    left_s = _BUDGET_S - (clock() - started_s)
    measured = _measure(steps, plan, budget_s=left_s, clock=clock)
    return None if measured is None else prefer_faster(measured, stored)


def _measure(
    steps: TrialSteps, plan: Plan, *, budget_s: float, clock: Callable[[], float]
) -> Calibration | None:
    logger.info(
        "Costs: measuring how long steps take at several draft lengths and loads, by which the "
        "governor chooses, for up to %.0f s",
        budget_s,
    )
    measurement = measure(steps, plan, budget_s=budget_s, clock=clock)
    table = measurement.samples.table()
    message = render_measurement(measurement)
    if len(table.sizes) < min(len(plan.sizes), _LEAST_SIZES):
        logger.warning(
            "Costs: learned while serving, because steps are too slow to measure enough of them at "
            "the start: %s",
            message,
        )
        return None
    return Calibration(table, message)


def render_measurement(measurement: Measurement) -> str:
    """The line for the log."""
    kinds = measurement.samples.num_kinds
    message = f"measured {kinds} kinds of steps in {measurement.seconds:.1f} s"
    if not measurement.dropped_sizes:
        return message
    dropped = ", ".join(map(str, measurement.dropped_sizes))
    return f"{message}, and no time was left for {dropped} requests at once"


def check_stored(
    steps: TrialSteps, plan: Plan, stored: StoredCosts, *, clock: Callable[[], float]
) -> Calibration | None:
    """Run a few steps; return the stored table if they agree with it, else None."""
    table = stored.table
    if table.context_tokens != plan.context_tokens or not set(table.sizes) <= set(plan.sizes):
        return None
    logger.info("Costs: checking whether those measured on %s still hold", stored.measured_on)
    started_s = clock()
    kinds = kinds_to_check(table, resting_length=plan.resting_length)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        verdict = judge(table, {kind: _step_s(steps, kind) for kind in kinds})
        taken_s = clock() - started_s
        if verdict.holds or taken_s * (attempt + 1) / attempt > _CHECK_BUDGET_S:
            break
    if not verdict.holds:
        logger.info(
            "Costs: those stored on %s no longer hold: a check differs by %.0f %%",
            stored.measured_on,
            100 * verdict.largest_deviation,
        )
        return None
    return Calibration(
        table,
        f"those stored on {stored.measured_on} hold: {len(kinds)} checks in {taken_s:.1f} s, "
        f"steps take {verdict.slowdown:.2f} times as long as then",
        is_new=False,
    )


def prefer_faster(measured: Calibration, stored: StoredCosts) -> Calibration:
    """The stored table if it has all measured cells and its steps are clearly faster, else the
    measured one. A stored table with further sizes or lengths is kept unless its steps are clearly
    slower: a plan is coarser where steps were slow, as beside other work.

    Other work on the machine only lengthens a step, and by a different factor each time. A machine
    that has become slower as a whole is followed while serving.
    """
    new, old = measured.table, stored.table
    sizes, lengths = set(new.sizes), set(new.lengths)
    if (
        new.context_tokens != old.context_tokens
        or not sizes <= set(old.sizes)
        or not lengths <= set(old.lengths)
    ):
        return measured
    is_coarser = (new.sizes, new.lengths) != (old.sizes, old.lengths)
    slowdown = _sum_s(new, sizes, lengths) / _sum_s(old, sizes, lengths)
    if slowdown < (_CLEARLY_FASTER if is_coarser else 1 / _CLEARLY_FASTER):
        return measured
    return Calibration(
        old,
        f"those stored on {stored.measured_on} are kept: measured anew, "
        f"{'with fewer kinds, ' if is_coarser else ''}steps take {slowdown:.2f} times as long",
        is_new=False,
    )


def _sum_s(table: CostTable, sizes: Set[int], lengths: Set[int]) -> float:
    """Seconds of one step of each kind of these sizes and lengths, verifying and drafting."""
    return sum(
        seconds
        for rows in (table.verify_s, table.draft_s)
        for size, row in zip(table.sizes, rows, strict=True)
        for length, seconds in zip(table.lengths, row, strict=True)
        if size in sizes and length in lengths
    )


def _step_s(steps: TrialSteps, kind: StepKind) -> float:
    steps.begin(kind.num_requests, kind.context_tokens)
    steps.run(kind.verified_tokens, kind.draft_length)
    return median(steps.run(kind.verified_tokens, kind.draft_length) for _ in range(REPEATS))


def _save(store: CostStore, identity: dict[str, Any], table: CostTable) -> None:
    try:
        store.save(identity, StoredCosts(table, datetime.date.today().isoformat()))
    except OSError as error:
        logger.warning("Costs: they could not be stored: %s", error)
