"""The command `paceline plan MODEL`, which is also the group of `paceline plan replay FILE`.

The first argument selects: the name of a subcommand, or else a model.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from paceline.foundation.capacity.calibration import MeasuredSteps, fit_hardware
from paceline.foundation.capacity.hardware import Hardware
from paceline.foundation.capacity.model.weight_format import SCHEMES, named_format
from paceline.foundation.command_line.option_types import (
    refuse_unwritable_file,
    refuse_unwritable_folder,
)
from paceline.foundation.command_line.output_files import write_files
from paceline.foundation.compatibility.cpu_formats import choose_cpu_dtype
from paceline.foundation.planning.decisions.acceptance_bills import acceptance_bills
from paceline.foundation.planning.decisions.advice import advise
from paceline.foundation.planning.decisions.candidate import Demand, step_times
from paceline.foundation.planning.decisions.fleet import Bill
from paceline.foundation.planning.decisions.limits import LimitSettings, engine_limits
from paceline.foundation.planning.decisions.planner import (
    Plan,
    choose_hardware,
    explain_choice,
    make_plan,
)
from paceline.foundation.planning.decisions.remedies import (
    Remedy,
    largest_machine,
    missing_sentence,
    remedies_anywhere,
    remedies_for,
)
from paceline.foundation.planning.launch_files import render_paceline_yaml, render_vllm_command
from paceline.foundation.planning.sources.catalogue import Catalogue, load_catalogue
from paceline.foundation.planning.sources.drafters import choose_drafter
from paceline.foundation.planning.sources.engine_costs import find_costs
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.planning.sources.this_machine import Machine, read_machine
from paceline.foundation.planning.values import (
    EngineLimits,
    HardwareEntry,
    Load,
    NothingFits,
    PlanError,
    PlannedModel,
    Slo,
    no_drafter,
)
from paceline.foundation.recording.stored_costs import costs_folder, cpu_name, read_all
from paceline.workbench.plan.command_group import ModelOrSubcommand
from paceline.workbench.plan.options import plan_options
from paceline.workbench.plan.output.document import plan_document
from paceline.workbench.plan.output.report import render_report

_GIB = 1024**3

_EXAMPLES = """\b
Examples:
  paceline plan meta-llama/Meta-Llama-3-70B-Instruct
      The cheapest machine that holds eight requests at once, what it gives, and the next ones
  paceline plan Qwen/Qwen2.5-72B-Instruct --gpu h100 --num-gpus 8 --json plan.json
  paceline plan Qwen/Qwen3-32B --gpu h200 --quantization fp8 --prompt-tokens 3000 \\
      --slo-ttft-ms 1000 --slo-tpot-ms 30 --requests-per-day 2e6 --regions 2
  paceline plan ./my-model --gpu cpu --draft ./my-draft --acceptance 0.7
      Drafts are planned where they win at this acceptance; without one it counts as unknown
  paceline plan Qwen/Qwen3-8B --gpu l4 --write deployment/
      Also write deployment/paceline.yaml and deployment/vllm-command.txt
  paceline plan replay RECORDING --draft-length 3
      What a setting would give, from a recording of a running engine (paceline plan replay --help)
"""


@click.command(
    help="Plan how to serve MODEL: memory, speed, speculation, replicas and cost.\n\n"
    "MODEL is a folder with config.json, a config.json, or a name of the table of well-known "
    "models (--list). Without --gpu, the cheapest machine is chosen that holds the load of "
    "--requests-per-day or --concurrency, or eight requests at once. Figures are computed from "
    "shapes and data sheets; docs/plan.md states how, and how far they are off. The exit code "
    "is 0 only if the model fits and meets the limits given.",
    epilog=_EXAMPLES,
)
@click.argument("model")
@plan_options
def plan_model(model: str, json_file: Path | None, folder: Path | None, **options: Any) -> None:
    """Parse the options, make the plan, show and write it."""
    refuse_unwritable_file("--json", json_file)
    if folder is not None:
        refuse_unwritable_folder("--write", folder)
    try:
        plan, alternatives = _plan(model, options)
    except NothingFits as error:
        raise click.ClickException(str(error)) from None
    except PlanError as error:
        raise click.UsageError(str(error)) from None
    advice, bills = advise(plan, alternatives), acceptance_bills(plan)
    if json_file is not None:
        _write_json(plan_document(plan, advice, alternatives, bills), json_file)
    if folder is not None and plan.point is not None:
        command = render_vllm_command(plan) + "\n"
        files = {"paceline.yaml": render_paceline_yaml(plan), "vllm-command.txt": command}
        write_files(folder, files)
    if str(json_file) != "-":
        click.echo(render_report(plan, advice, bills))
    if plan.point is None:
        click.echo(_failure(plan, options["catalogue_file"]), err=True)
        if folder is not None:
            why = "it would miss the SLO" if plan.fits else "no engine would start from it"
            click.echo(f"Nothing was written to {folder}: {why}.", err=True)
        sys.exit(1)


plan = ModelOrSubcommand(
    name="plan",
    help="Plan how to serve a model.",
    model_command=plan_model,
    subcommands={"replay": ("paceline.workbench.plan.replay.command", "replay")},
)


def _plan(model_name: str, options: dict[str, Any]) -> tuple[Plan, dict[str, Plan]]:
    catalogue = load_catalogue(options["catalogue_file"])
    machine = read_machine()
    gpu = options["gpu"]
    if gpu is None and options["usd_per_gpu_hour"] is not None:
        raise PlanError(
            "--usd-per-gpu-hour is the price of one kind of hardware: name it with --gpu"
        )
    if gpu is None and (options["num_gpus"] or options["tensor_parallel"] or options["calibrate"]):
        raise PlanError(
            "--num-gpus, --tensor-parallel and --calibrate need --gpu, which names the hardware"
        )
    entry = None if gpu is None else catalogue.find(gpu, machine, options["usd_per_gpu_hour"])
    dtype = options["dtype"] or _dtype(model_name, entry, machine, catalogue, options)
    model = find_model(model_name, catalogue, dtype=dtype, quantization=options["quantization"])
    demand = _demand(model, dtype, catalogue, options)
    if entry is None:
        plan = _on_any_machine(demand, catalogue)
    else:
        if options["calibrate"] is not None:
            entry = _calibrated(demand, entry, options)
        elif entry.hardware.is_cpu:
            demand, entry = _with_measured_steps(demand, entry)
        plan = _plan_on(demand, entry, options["num_gpus"], options["tensor_parallel"])
    return explain_choice(plan), dict(_alternatives(plan))


def _calibrated(demand: Demand, entry: HardwareEntry, options: dict[str, Any]) -> HardwareEntry:
    """The hardware at the pace of a server that runs the model on it."""
    from paceline.workbench.plan.calibration import calibrate  # It imports an HTTP client.

    size = options["tensor_parallel"] or options["num_gpus"] or 1
    alone = replace(demand, drafter=no_drafter())
    return calibrate(entry, options["calibrate"], lambda fitted: step_times(alone, fitted, size))


def _with_measured_steps(demand: Demand, entry: HardwareEntry) -> tuple[Demand, HardwareEntry]:
    """Both with what an engine measured for this model and drafter on this machine, if one did."""
    folder = costs_folder(os.environ)
    stored = read_all(Path(folder)) if folder else ()
    costs = find_costs(stored, demand.model, demand.drafter, device=cpu_name())
    if costs is None or costs.tensor_parallel != 1 or costs.table.sizes[-1] < 2:
        return demand, entry
    times = step_times(replace(demand, drafter=no_drafter()), entry, 1)
    most, context = costs.table.sizes[-1], costs.table.context_tokens
    measured = MeasuredSteps(
        most,
        costs.table.load(1).plain_s,
        costs.table.load(most).plain_s,
        times.decode_s(1, context),
        times.decode_s(most, context),
    )
    hardware = fit_hardware(entry.hardware, measured)
    fitted = replace(entry, hardware=hardware, calibration=measured)
    return replace(demand, costs=costs), fitted


def _dtype(
    name: str,
    entry: HardwareEntry | None,
    machine: Machine,
    catalogue: Catalogue,
    options: dict[str, Any],
) -> str:
    """The format that vLLM, or `paceline serve` on a CPU, chooses for the checkpoint."""
    if entry is not None and entry.hardware.is_cpu:
        return choose_cpu_dtype(machine.cpu_flags)[0]
    model = find_model(name, catalogue, quantization=options["quantization"])
    wanted = "bfloat16" if model.shape.dtype == "float32" else model.shape.dtype
    if entry is not None and wanted not in entry.hardware.flops_per_s:
        return "float16"
    return wanted


def _demand(
    model: PlannedModel, dtype: str, catalogue: Catalogue, options: dict[str, Any]
) -> Demand:
    load = Load(
        prompt_tokens=options["prompt_tokens"],
        output_tokens=options["output_tokens"],
        requests_per_day=options["requests_per_day"],
        peak_factor=options["peak_factor"],
        concurrency=options["concurrency"],
        regions=options["regions"],
    )
    reserve = options["reserve_gib"]
    settings = LimitSettings(
        gpu_memory_utilization=options["gpu_memory_utilization"],
        max_model_len=options["max_model_len"],
        max_num_seqs=options["max_num_seqs"],
        max_batched_tokens=options["max_num_batched_tokens"],
        kv_dtype="fp8" if options["kv_cache_dtype"] == "fp8" else None,
        max_draft_length=options["draft_length_max"],
        kv_cache_bytes=options["kv_cache_bytes"],
        reserve_bytes=None if reserve is None else int(reserve * _GIB),
    )

    def limits_for(hardware: Hardware) -> EngineLimits:
        return engine_limits(settings, hardware, model, load)

    return Demand(
        model=model,
        drafter=choose_drafter(
            options["draft"],
            model.name,
            catalogue,
            dtype=dtype,
            acceptance=options["acceptance"],
            quantization=options["draft_quantization"],
        ),
        load=load,
        slo=Slo(options["slo_ttft_ms"], options["slo_tpot_ms"], options["slo_percentile"] / 100),
        bill=Bill(options["present_usd_per_month"], options["one_time_usd"]),
        limits_for=limits_for,
    )


def _plan_on(
    demand: Demand, entry: HardwareEntry, num_gpus: int | None, tensor_parallel: int | None
) -> Plan:
    """The plan on the given number of GPUs, or on the fewest that fit."""
    if num_gpus is not None or tensor_parallel is not None:
        return make_plan(demand, entry, num_gpus or tensor_parallel or 1, tensor_parallel)
    num_gpus = 1
    while True:
        plan = make_plan(demand, entry, num_gpus, None)
        if plan.point is not None or num_gpus * 2 > entry.hardware.gpus_per_machine:
            return plan
        num_gpus *= 2


def _alternatives(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Plans for the same hardware with other weights; none for a model that is quantized."""
    model = plan.demand.model
    if model.weight_format.is_quantized:
        return
    for scheme in SCHEMES:
        if scheme in ("none", "gptq"):
            continue  # GPTQ has the same sizes as AWQ.
        weights = named_format(scheme, model.weight_format.dtype)
        converted = replace(model, weight_format=weights)
        proposed = plan.choice.proposed
        demand = replace(plan.demand, model=converted, drafter=proposed, costs=None)
        yield (
            scheme,
            make_plan(demand, plan.entry, plan.placement.num_gpus, plan.placement.tensor_parallel),
        )


def _write_json(document: dict[str, Any], file: Path) -> None:
    text = json.dumps(document, indent=1) + "\n"
    if str(file) == "-":
        click.echo(text, nl=False)
    else:
        file.write_text(text, encoding="utf-8")


def _on_any_machine(demand: Demand, catalogue: Catalogue) -> Plan:
    """The plan on the cheapest machine. Raises `NothingFits` with what is missing."""
    machines = list(catalogue.priced_gpus())
    try:
        return choose_hardware(demand, machines)
    except NothingFits as error:
        largest = largest_machine(demand, machines)
        text = str(error)
        if largest is not None:
            where = f"{largest.placement.num_gpus} x {largest.entry.hardware.name}"
            missing = missing_sentence(largest)
            lacks = f"lacks {missing}" if missing else "misses the limits on latency"
            text += f". The one that comes closest, {where}, {lacks}"
        raise NothingFits(f"{text}. {_remedies(remedies_anywhere(demand, machines))}") from None


def _failure(plan: Plan, catalogue_file: Path | None) -> str:
    model, hardware = plan.demand.model, plan.entry.hardware
    where = f"{plan.placement.num_gpus} x {hardware.name}"
    missing = missing_sentence(plan)
    if missing:
        what = f"{model.name} does not fit on {where}: it needs {missing}"
    else:
        what = f"{model.name} on {where} misses the SLO with one request at a time"
    machines = list(load_catalogue(catalogue_file).priced_gpus())
    return f"{what}. {_remedies(remedies_for(plan, machines))}"


def _remedies(found: list[Remedy]) -> str:
    if not found:
        return (
            "No number of GPUs and no scheme of --quantization changes that: allow a longer "
            "--slo-ttft-ms or --slo-tpot-ms, shorter requests, or add your hardware with "
            "--catalogue FILE"
        )
    smallest, *others = found
    text = f"The smallest plan that works: {smallest.sentence}"
    return text + "".join(f"; or {one.sentence}" for one in others)
