"""Compare the planner's decode time with that of a real engine on this machine.

    python benchmarks/planner/check_time.py --twin runs/twin --results benchmarks/results

The bundled target and the twin run in vLLM on the CPU, in the layout of `paceline serve`; a step is
the median of 5 runs, in which the batch sizes take turns. `uncalibrated` is the plan with the
catalogue's figures for `cpu`; `calibrated` is fitted to the steps of 1 and 8 requests, as
`--calibrate` does, and judged on the other batch sizes. The exit code is 1 above 25 % and 8 % in
the median over the cells.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.planner.checks import check_parser, load_in_child, open_result
from benchmarks.planner.loaded_model import DECODE_STEPS, PROMPT_TOKENS
from paceline.demo import target_path
from paceline.foundation.capacity.calibration import MeasuredSteps, fit_hardware
from paceline.foundation.capacity.hardware import Hardware
from paceline.foundation.capacity.model.kv_layout import kv_layers
from paceline.foundation.capacity.step_time import StepTime, model_time
from paceline.foundation.planning.sources.catalogue import CPU, load_catalogue
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.planning.sources.this_machine import read_machine
from paceline.foundation.results.environment import describe_environment
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.engine.launch.layout import EAGER, Layout, LayoutSettings, choose_layout

BATCHES = (1, 2, 4, 8, 16)
FITTED = (1, 8)
MAX_UNCALIBRATED, MAX_CALIBRATED = 0.25, 0.08
KV_CACHE_BYTES = 256 * 1024**2


def main() -> None:
    """Measure, predict, compare."""
    parser = check_parser(__doc__)
    parser.add_argument("--no-bundled", action="store_true", help="the twin only")
    arguments = parser.parse_args()
    result = open_result(arguments, "planner-decode-time", "cells")
    rows = result.rows
    models = {} if arguments.no_bundled else {"bundled target": target_path()}
    if arguments.twin is not None:
        models["twin"] = arguments.twin
    for name, folder in models.items():
        layout = choose_layout(read_hardware(), LayoutSettings(kv_cache_bytes=KV_CACHE_BYTES))
        measured = measure(folder, layout)
        rows.extend(compare(name, folder, layout, measured))
    for row in rows:
        print(json.dumps(row), flush=True)
    medians = {
        "uncalibrated": statistics.median(row["uncalibrated_error"] for row in rows),
        "calibrated": statistics.median(
            row["calibrated_error"] for row in rows if row["batch"] not in FITTED
        ),
    }
    print(json.dumps(medians))
    if result.file is not None:
        result.file.write(
            {
                "schema_version": 1,
                "kind": "planner decode time",
                "environment": asdict(describe_environment(sys.argv)),
                "median_error": medians,
                "cells": rows,
            }
        )
    is_close = (
        medians["uncalibrated"] <= MAX_UNCALIBRATED and medians["calibrated"] <= MAX_CALIBRATED
    )
    sys.exit(0 if is_close else 1)


def measure(folder: Path, layout: Layout) -> dict[int, dict[str, float]]:
    """Decode steps of the real engine, by batch size."""
    llm = {
        "model": str(folder),
        "dtype": layout.dtype,
        "enforce_eager": EAGER in layout.vllm_args,
        "kv_cache_memory_bytes": KV_CACHE_BYTES,
        "max_model_len": 2048,
        "enable_prefix_caching": False,
    }
    request = {"llm": llm, "decode_batches": BATCHES}
    answer = load_in_child(request, environment=layout.environment)
    if "failed" in answer:
        sys.exit(f"Error: the engine exited: {answer['failed']}")
    steps = answer["decode_step_s"]
    return {int(batch): values for batch, values in steps.items()}


def compare(
    name: str, folder: Path, layout: Layout, measured: dict[int, dict[str, float]]
) -> list[dict[str, Any]]:
    """Measured and predicted steps, one row per batch size."""
    dtype, is_compiled = layout.dtype, EAGER not in layout.vllm_args
    catalogue = load_catalogue()
    hardware = catalogue.find(CPU, read_machine(), None).hardware
    model = find_model(str(folder), catalogue, dtype=dtype)
    context = PROMPT_TOKENS + DECODE_STEPS / 2

    def steps(on: Hardware) -> StepTime:
        layers = kv_layers(model.shape, dtype)
        return StepTime(model_time(model.shape, model.weight_format, layers, on, 1), None)

    few, many = FITTED
    plain = steps(hardware)
    fitted = fit_hardware(
        hardware,
        MeasuredSteps(
            many,
            measured[few]["median"],
            measured[many]["median"],
            plain.decode_s(few, context),
            plain.decode_s(many, context),
        ),
    )
    rows = []
    for batch, values in measured.items():
        row = {
            "model": name,
            "dtype": dtype,
            "compiled": is_compiled,
            "batch": batch,
            "measured_s": values,
        }
        for kind, times in (("uncalibrated", plain), ("calibrated", steps(fitted))):
            predicted = times.decode_s(batch, context)
            row[f"{kind}_s"] = predicted
            row[f"{kind}_error"] = abs(predicted / values["median"] - 1)
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
