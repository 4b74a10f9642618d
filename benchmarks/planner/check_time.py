"""Compare the planner's decode time with that of a real engine on this machine.

    python benchmarks/planner/check_time.py --twin runs/twin --results benchmarks/results

The bundled target and the twin run in vLLM on the CPU, in the layout of `paceline serve`; a step is
the median of 3 runs. `uncalibrated` is the plan with the catalogue's figures for `cpu`;
`calibrated` is fitted to the steps of 1 and 8 requests, as `--calibrate` does, and judged on the
other batch sizes. The exit code is 1 above 25 % and 8 % in the median over the cells.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.planner.loaded_model import DECODE_STEPS, PROMPT_TOKENS
from benchmarks.results_file import ResultFile, add_allow_dirty, read_result
from paceline.bench.results.environment import describe_environment
from paceline.capacity.calibration import MeasuredSteps, fit_hardware
from paceline.capacity.hardware import Hardware
from paceline.capacity.model.kv_layout import kv_layers
from paceline.capacity.step_time import StepTime, model_time
from paceline.demo import target_path
from paceline.engine.launch.hardware import read_hardware
from paceline.engine.launch.layout import LayoutSettings, choose_layout
from paceline.plan.sources.catalogue import CPU, load_catalogue
from paceline.plan.sources.model_source import find_model
from paceline.plan.sources.this_machine import read_machine

BATCHES = (1, 2, 4, 8, 16)
FITTED = (1, 8)
MAX_UNCALIBRATED, MAX_CALIBRATED = 0.25, 0.08
KV_CACHE_BYTES = 256 * 1024**2


def main() -> None:
    """Measure, predict, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--twin", type=Path, help="folder of the twin; left out without it")
    parser.add_argument("--no-bundled", action="store_true", help="the twin only")
    parser.add_argument("--results", type=Path, help="folder of the raw result")
    parser.add_argument("--add-to", type=Path, help="raw result of an earlier run, to complete")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    file, rows = None, list[dict[str, Any]]()
    if arguments.add_to is not None:
        file = ResultFile.resume(arguments.add_to, allow_dirty=arguments.allow_dirty)
        rows = read_result(arguments.add_to)["cells"]
    elif arguments.results is not None:
        date = describe_environment(sys.argv).date_utc[:10]
        path = arguments.results / f"planner-decode-time-{date}.json"
        file = ResultFile(path, allow_dirty=arguments.allow_dirty)
    models = {} if arguments.no_bundled else {"bundled target": target_path()}
    if arguments.twin is not None:
        models["twin"] = arguments.twin
    for name, folder in models.items():
        layout = choose_layout(read_hardware(), LayoutSettings(kv_cache_bytes=KV_CACHE_BYTES))
        measured = measure(folder, layout.dtype, layout.environment)
        rows.extend(compare(name, folder, layout.dtype, measured))
    for row in rows:
        print(json.dumps(row), flush=True)
    medians = {
        "uncalibrated": statistics.median(row["uncalibrated_error"] for row in rows),
        "calibrated": statistics.median(
            row["calibrated_error"] for row in rows if row["batch"] not in FITTED
        ),
    }
    print(json.dumps(medians))
    if file is not None:
        file.write(
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


def measure(folder: Path, dtype: str, environment: Any) -> dict[int, dict[str, float]]:
    """Decode steps of the real engine, by batch size."""
    llm = {
        "model": str(folder),
        "dtype": dtype,
        "enforce_eager": True,
        "kv_cache_memory_bytes": KV_CACHE_BYTES,
        "max_model_len": 2048,
        "enable_prefix_caching": False,
    }
    request = {"llm": llm, "decode_batches": BATCHES}
    with tempfile.TemporaryDirectory(prefix="paceline-") as temporary:
        answer, log = Path(temporary, "answer.json"), Path(temporary, "vllm.log")
        with log.open("wb") as output:
            done = subprocess.run(
                [
                    sys.executable,
                    str(Path(__file__).with_name("loaded_model.py")),
                    json.dumps(request),
                    str(answer),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                check=False,
            )
        if done.returncode:
            sys.exit(f"Error: the engine exited: {log.read_text(errors='replace')[-2000:]}")
        steps = json.loads(answer.read_text())["decode_step_s"]
    return {int(batch): values for batch, values in steps.items()}


def compare(
    name: str, folder: Path, dtype: str, measured: dict[int, dict[str, float]]
) -> list[dict[str, Any]]:
    """Measured and predicted steps, one row per batch size."""
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
        row = {"model": name, "dtype": dtype, "batch": batch, "measured_s": values}
        for kind, times in (("uncalibrated", plain), ("calibrated", steps(fitted))):
            predicted = times.decode_s(batch, context)
            row[f"{kind}_s"] = predicted
            row[f"{kind}_error"] = abs(predicted / values["median"] - 1)
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
