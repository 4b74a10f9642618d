"""Predict what an engine would give under another setting, with intervals.

Every replicate fits acceptance and cost to another draw of the recording, draws its requests anew,
draws a pace of the machine, and runs the policy simulator once. A replicate is thus one phase of
traffic that might be measured, and the interval is one for such a measurement:

    mean ± t * deviation * sqrt(1 + 1 / replicates)

in the logarithm of the figure, with Student's t. There is none for a recording with steps in fewer
than two blocks, which does not show how much the machine's speed varies. Left out are the gateway,
preemptions (the KV cache is assumed large enough), and the caps of single requests.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from paceline.foundation.capacity.cost import usd_per_million_tokens
from paceline.foundation.capacity.cost_table import CostTable
from paceline.foundation.planning.values import PlanError
from paceline.foundation.recording.reading import Recording
from paceline.foundation.recording.records import Header
from paceline.runtime.governor.costs.cost_model import CostModel
from paceline.runtime.governor.policy import Policy
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.engine.step_log import StepLog
from paceline.testing.policy_simulator.evaluation.measured_costs import measured_costs
from paceline.testing.policy_simulator.machines.cost import CostFunction
from paceline.testing.policy_simulator.machines.graphs import GraphSizes
from paceline.testing.policy_simulator.machines.machine import Disturbance
from paceline.workbench.plan.replay.acceptance import (
    Verdicts,
    draw_categories,
    fit_categories,
    verdicts_by_category,
)
from paceline.workbench.plan.replay.cost import cost_of
from paceline.workbench.plan.replay.cost_fit import fit_cost
from paceline.workbench.plan.replay.machine import drafter_kind, make_machine
from paceline.workbench.plan.replay.step_data import gather_steps
from paceline.workbench.plan.replay.traffic import make_phases, served_requests
from paceline.workbench.plan.replay.values import (
    DEFAULT_REPLICATES,
    DEFAULT_SECONDS,
    FIGURES,
    MIN_BLOCKS,
    Estimate,
    Load,
    Prediction,
)
from paceline.workbench.plan.replay.warning_texts import Outcome, replay_warnings

MIN_CLEAN_STEPS = 50
"""With fewer, the cost of a step is the prior's rather than measured."""
# 95 % quantiles of Student's t for 4 to 30 degrees of freedom; beyond, the normal quantile.
_T_95 = (
    2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746,
    1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699,
    1.697,
)  # fmt: skip
_NORMAL_95 = 1.645
_QUIET = Disturbance(noise_fraction=0.0)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is to be predicted."""

    make_policy: Callable[[int, CostTable | None], Policy]
    """Makes the policy for a ceiling, and for what its engine measures of its costs at its start; a
    new one for every replicate."""
    max_draft_length: int
    load: Load
    other_drafter: Recording | None = None
    """A recording of another drafter on the same machine; None keeps the recorded one."""
    scale_cost: Callable[[CostFunction], CostFunction] = lambda cost: cost
    """The cost on other hardware."""
    scale_deviation: float = 0.0
    """Relative standard deviation of that scaling."""
    usd_per_hour: float | None = None
    seconds: float = DEFAULT_SECONDS
    num_replicates: int = DEFAULT_REPLICATES
    seed: int = 0


def predict(
    recording: Recording, setting: Setting, on_progress: Callable[[int], None] = lambda done: None
) -> Prediction:
    """Predict the setting. Raises `PlanError` for a recording that does not allow it.

    `on_progress` is called with the number of replicates done.
    """
    source = setting.other_drafter or recording
    header = source.header
    depth = max(setting.max_draft_length, 1)
    requests = served_requests(recording.requests)
    if not requests:
        raise PlanError(
            "the recording has no request with output; record while the server has traffic"
        )
    drafter_number = 0 if setting.other_drafter is None else 1
    parts = [recording] if setting.other_drafter is None else [recording, setting.other_drafter]
    graphs = GraphSizes(recording.header.graph_sizes)
    tables = _tables_of(parts)
    data = gather_steps([(part.blocks, _passes_of(part.header)) for part in parts], graphs, tables)
    if data.counts.sum() < MIN_CLEAN_STEPS:
        raise PlanError(
            f"the recording has {int(data.counts.sum())} clean steps; it needs at least "
            f"{MIN_CLEAN_STEPS}: record for longer, or under more load"
        )
    verdicts = verdicts_by_category(source.requests, depth)
    if setting.max_draft_length > 0 and not _has_verdicts(verdicts, header):
        raise PlanError(
            "the recording has no verdict on a draft token, so the acceptance is not known: give "
            "--draft-length off, or record while the engine drafts, or give a recording that has "
            "verdicts as --drafter-acceptance"
        )
    estimate = fit_categories(verdicts, depth)
    cost_fit = fit_cost(data)
    pace_deviation = math.hypot(cost_fit.phase_deviation, setting.scale_deviation)
    figures: list[dict[str, float]] = []
    outcomes: list[Outcome] = []
    simulated_s = 0.0
    for number in range(setting.num_replicates):
        random = np.random.default_rng([setting.seed, number])
        fits = draw_categories(verdicts, depth, estimate, random)
        pace = math.exp(pace_deviation * random.standard_normal())
        table = tables[drafter_number] if tables else None
        cost = cost_of(cost_fit.draw(random), graphs, drafter_number, pace, table)
        machine = make_machine(
            header, recording.header, setting.scale_cost(cost), setting.max_draft_length
        )
        phases = make_phases(
            requests,
            setting.load,
            fits,
            recorded_s=recording.seconds,
            seconds=setting.seconds,
            looks_ngrams_up=machine.looks_ngrams_up,
            random=random,
        )
        measured = measured_costs(machine) if tables else None
        policy = setting.make_policy(setting.max_draft_length, measured)
        engine = SimulatedEngine(
            machine, policy, seed=int(random.integers(2**31)), disturbance=_QUIET
        )
        logs = [engine.run(phase) for phase in phases]
        simulated_s = logs[-1].seconds
        figures.append(_figures(logs[-1], setting.usd_per_hour))
        outcomes.append(
            Outcome(
                num_arrivals=len(phases[-1].requests),
                most_requests=int(logs[-1].num_requests.max(initial=0)),
                num_waiting=engine.num_waiting,
            )
        )
        on_progress(number + 1)
    has_intervals = data.num_blocks >= MIN_BLOCKS
    return Prediction(
        figures={
            name: _estimate([f[name] for f in figures if name in f], bounds=_bounds(name, setting))
            for name in FIGURES
        },
        num_replicates=setting.num_replicates,
        simulated_s=simulated_s,
        has_intervals=has_intervals,
        warnings=tuple(
            replay_warnings(
                recording,
                source.requests,
                setting.load,
                setting.max_draft_length,
                outcomes,
                has_intervals=has_intervals,
            )
        ),
    )


def _tables_of(parts: Sequence[Recording]) -> list[CostModel]:
    """The tables of costs of the recordings; empty unless each has one. Raises `PlanError`."""
    costs = [part.header.cost_table for part in parts]
    try:
        return [
            CostModel(msgspec.convert(found, CostTable, from_attributes=True), found.lengths[-1])
            for found in costs
            if found is not None and None not in costs
        ]
    except (ValueError, IndexError) as error:
        raise PlanError(f"the recording has no valid table of costs: {error}") from None


def _has_verdicts(verdicts: Mapping[str, Verdicts], header: Header) -> bool:
    """Whether the acceptance is known. A search that offered nothing when asked is a result too."""
    if drafter_kind(header) in ("ngram", "ngram_gpu"):
        return bool(verdicts)
    return any(part.tried.any() for part in verdicts.values())


def _passes_of(header: Header) -> Callable[[int], int]:
    kind = drafter_kind(header)
    if kind in ("ngram", "ngram_gpu", "none"):
        return lambda length: 0
    if kind == "keeps_up":
        return lambda length: max(length, 1)
    return lambda length: length


def _figures(log: StepLog, usd_per_hour: float | None) -> dict[str, float]:
    figures = {"output_tokens_per_s": log.tokens_per_s}
    if log.num_steps:
        figures["draft_length"] = float(log.draft_length.mean())
        decoded = float(log.num_requests.sum())
        figures["tokens_per_step"] = float(log.output_tokens.sum()) / decoded
    if len(log.first_token_s):
        figures["ttft_p50_ms"] = 1e3 * float(np.quantile(log.first_token_s, 0.5))
        figures["ttft_p90_ms"] = 1e3 * float(np.quantile(log.first_token_s, 0.9))
    if len(log.time_per_output_token_s):
        figures["tpot_mean_ms"] = 1e3 * float(log.time_per_output_token_s.mean())
        figures["tpot_p90_ms"] = 1e3 * float(np.quantile(log.time_per_output_token_s, 0.9))
    if usd_per_hour is not None and log.tokens_per_s > 0:
        cost = usd_per_million_tokens(usd_per_hour, log.tokens_per_s)
        figures["usd_per_million_output_tokens"] = cost
    return figures


def _bounds(name: str, setting: Setting) -> tuple[float, float]:
    """The values that a figure can have at all."""
    if name == "draft_length":
        return 0.0, float(setting.max_draft_length)
    if name == "tokens_per_step":
        return 0.0, 1.0 + setting.max_draft_length
    return 0.0, math.inf


def _estimate(
    values: Sequence[float], *, bounds: tuple[float, float] = (0.0, math.inf)
) -> Estimate | None:
    """The interval of one figure from its replicates, within its bounds; None for fewer than two.

    >>> _estimate([100.0, 100.0, 100.0])
    Estimate(value=100.0, low=100.0, high=100.0)
    >>> _estimate([1.0, 4.0, 16.0], bounds=(0.0, 8.0))
    Estimate(value=4.0, low=0.131794, high=8.0)
    """
    if len(values) < 2:
        return None
    if min(values) <= 0.0:
        return Estimate(statistics.median(values), min(values), max(values))
    logs = [math.log(value) for value in values]
    index = len(values) - 5
    quantile = _T_95[max(index, 0)] if index < len(_T_95) else _NORMAL_95
    middle = statistics.fmean(logs)
    half = quantile * statistics.stdev(logs) * math.sqrt(1.0 + 1.0 / len(values))
    low, value, high = (math.exp(at) for at in (middle - half, middle, middle + half))
    least, most = bounds
    return Estimate(_tidy(value), _tidy(max(low, least)), _tidy(min(high, most)))


def _tidy(value: float) -> float:
    return float(f"{value:.6g}")
