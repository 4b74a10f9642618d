"""Compare the planner's sign of speculation with fixed draft lengths that were measured.

    python benchmarks/planner/check_speculation.py

Reads the raw results of `benchmarks/results`; no engine runs. The constants of the catalogue's
`cpu` were chosen on the first sweep and on `tests/unit/plan/data/measured_speculation.json`, and
once more, when the verification of drafts had become faster, so that the other sweeps, until then
held out, stay right. Prints every cell that is wrong. The exit code is 1 if less than 95 % of the
cells of a draft model in the other sweeps are right.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.planner.speculation_cells import (
    SHORT_CONTEXT_TOKENS,
    Cell,
    interleaved_cells,
    trace_cells,
)
from benchmarks.results_file import read_result
from paceline.demo import draft_path, target_path
from paceline.foundation.capacity.model.hf_config import read_model_config
from paceline.foundation.capacity.model.kv_layout import kv_layers
from paceline.foundation.capacity.model.weight_format import named_format
from paceline.foundation.capacity.speculation import gains
from paceline.foundation.capacity.step_time import ModelTime, StepTime, model_time
from paceline.foundation.planning.sources.catalogue import CPU, load_catalogue
from paceline.foundation.planning.sources.this_machine import Machine

RESULTS = Path(__file__).resolve().parents[1] / "results"
MIN_RIGHT = 0.95
TWIN_LAYERS, TWIN_INTERMEDIATE_SIZE = 12, 8192
"""Defaults of `PYTHONPATH=tools python -m demo_recipe.deepen`."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Cells of one raw result."""

    file: str
    is_interleaved: bool
    is_twin: bool
    """The target is the twin; otherwise the bundled one."""
    has_draft_model: bool
    """Otherwise the drafter is the n-gram lookup."""
    dtype: str
    """That `paceline serve` chooses: bfloat16 where the CPU has it, as the AMD one has."""
    is_held_out: bool = True


SWEEPS = (
    Sweep(
        "governor-interleaved-twin-model-trace-2026-11-22.json.gz",
        True, True, True, "float32", is_held_out=False,
    ),
    Sweep(
        "governor-interleaved-twin-model-trace-2026-11-22-2.json.gz", True, True, True, "float32"
    ),
    Sweep("governor-twin-model-2026-11-21.json.gz", False, True, True, "float32"),
    Sweep("earlier/governor-twin-model-2026-11-21.json.gz", False, True, True, "bfloat16"),
    Sweep("governor-bundled-ngram-2026-11-21.json.gz", False, False, False, "float32"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """A cell and the gain that the planner predicts for it."""

    cell: Cell
    predicted_gain: float

    @property
    def is_right(self) -> bool:
        """Whether the prediction has the sign of the mean of the repeats."""
        return (self.predicted_gain > 0) == (self.cell.gain > 0)


@dataclass(frozen=True, slots=True)
class Share:
    """How many cells have the right sign."""

    right: int
    cells: int
    settled_right: int
    """Of the cells whose repeats all agree on the sign."""
    settled: int


def judge(sweep: Sweep, document: Mapping[str, Any]) -> list[Judged]:
    """Every cell of a raw result."""
    cells = (
        interleaved_cells(document)
        if sweep.is_interleaved
        else trace_cells(document, is_lookup=not sweep.has_draft_model)
    )
    times = _step_time(sweep)
    judged = []
    for cell in cells:
        (row,) = gains(
            times,
            cell.acceptance,
            requests=cell.requests,
            context_tokens=cell.context_tokens,
            draft_lengths=[cell.draft_length],
        )
        judged.append(Judged(cell, row.gain))
    return judged


def share_of(judged: Iterable[Judged]) -> Share:
    """Count the cells."""
    found = list(judged)
    settled = [one for one in found if one.cell.is_settled]
    return Share(
        sum(one.is_right for one in found),
        len(found),
        sum(one.is_right for one in settled),
        len(settled),
    )


def step_error(document: Mapping[str, Any], *, is_twin: bool) -> float:
    """Predicted over measured time of a step with one request, minus 1.

    `document` is a result of `benchmarks/served_rate.py`, which decodes without speculation in
    bfloat16; the engine's own process is counted.
    """
    rate: float = statistics.median(run["in_process"] for run in document["runs"])
    times = StepTime(_model_time(_target_config(is_twin), document["layout"]["dtype"]), None)
    return times.decode_s(1, SHORT_CONTEXT_TOKENS) * rate - 1


def main() -> None:
    """Judge every sweep, print the shares and the wrong cells."""
    held_out = list[Judged]()
    for sweep in SWEEPS:
        judged = judge(sweep, read_result(RESULTS / sweep.file))
        share = share_of(judged)
        print(
            f"{sweep.file}: {share.right} of {share.cells}; {share.settled_right} of "
            f"{share.settled} whose repeats agree"
        )
        for one in judged:
            if not one.is_right:
                cell = one.cell
                print(
                    f"  {cell.phase}, {cell.draft_length} drafts, acceptance "
                    f"{cell.acceptance.per_token:.2f}: measured {cell.gain:+.0%} "
                    f"({min(cell.ratios) - 1:+.0%} to {max(cell.ratios) - 1:+.0%}), predicted "
                    f"{one.predicted_gain:+.0%}"
                )
        if sweep.is_held_out and sweep.has_draft_model:
            held_out += judged
    share = share_of(held_out)
    print(f"draft model, held out: {share.right} of {share.cells}")
    sys.exit(0 if share.right >= MIN_RIGHT * share.cells else 1)


def _target_config(is_twin: bool) -> dict[str, Any]:
    target: dict[str, Any] = json.loads((target_path() / "config.json").read_text())
    if is_twin:
        target |= {
            "num_hidden_layers": TWIN_LAYERS,
            "max_window_layers": TWIN_LAYERS,
            "layer_types": ["full_attention"] * TWIN_LAYERS,
            "intermediate_size": TWIN_INTERMEDIATE_SIZE,
        }
    return target


def _step_time(sweep: Sweep) -> StepTime:
    draft = json.loads((draft_path() / "config.json").read_text())
    return StepTime(
        _model_time(_target_config(sweep.is_twin), sweep.dtype),
        _model_time(draft, sweep.dtype) if sweep.has_draft_model else None,
    )


def _model_time(config: dict[str, Any], dtype: str) -> ModelTime:
    two_cores = Machine(2, 8 * 1024**3, frozenset())
    hardware = load_catalogue().find(CPU, two_cores, None).hardware
    shape = read_model_config(config)
    return model_time(shape, named_format("none", dtype), kv_layers(shape, dtype), hardware, 1)


if __name__ == "__main__":
    main()
