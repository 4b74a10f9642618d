"""Every number format of `paceline quantize` in stock vLLM: kernel, quality and speed.

    python benchmarks/quantize_formats.py
    python benchmarks/quantize_formats.py --model runs/twin --variants w8a8 awq gptq fp8 kv-fp8
    python benchmarks/quantize_formats.py --model runs/twin --compile --only-load float32 fp8
    python benchmarks/quantize_formats.py --resume benchmarks/results/quantize-formats-….json.gz

Per model: (1) `paceline quantize` makes a folder per scheme, calibrated on one half of the held-out
questions. (2) Each variant is loaded alone in vLLM without any plugin (`VLLM_PLUGINS=""`). The
kernel of each layer is compared with what the gate of number formats says; for a refused format,
vLLM's own reason is recorded. The other half of the questions gives the likelihood of the reference
answers and greedy answers. (3) The engines of all variants are alive at once, and answer the same
prompts in turns of a few seconds, one request at a time; if memory does not suffice, in batches.
The unquantized model is there in both formats, and once more as the control. (4) The fastest
quantized variant and the fastest unquantized one, with and without each drafter. (5) The operators
that take the time of both.

With `--compile`, the engines of steps (3) to (5) compile the model, as `paceline serve` has them do
where it can. Each compiles it anew: stock vLLM 0.32 cannot load compiled models on CPUs. Step (2)
stays eager, so quality is that of the eager model.

The result is written after each step, with `is_complete: false` before the last one. `--resume`
completes it, with the folders in `--work`. An engine that ends after step (2) is left out of the
rest. The exit code is 1 if one did, the gate and vLLM disagree or a folder could not be made, and
130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.interruption import end_by_sigterm_too, end_incomplete
from benchmarks.quantization.campaign import Campaign, Settings
from benchmarks.quantization.prompts import answer_pairs, write_calibration
from benchmarks.quantization.summary import summarize
from benchmarks.quantization.table import render_model
from benchmarks.quantization.variants import DRAFTERS, UNQUANTIZED, VARIANTS, with_baselines
from benchmarks.results_file import add_allow_dirty, add_resume, begin_or_resume, sibling
from paceline import demo
from paceline.foundation.results.environment import describe_environment
from paceline.runtime.engine.launch.hardware import read_hardware

_RECORDS = ("made", "loads", "batches", "starts", "turns", "products", "profiles", "failures")
_OWN = ("w8a8", "w8a8-bfloat16", "awq", "gptq", "fp8", "kv-fp8", "nvfp4")


def main() -> int:
    """Measure all models; the exit code."""
    end_by_sigterm_too()
    options = _parser().parse_args()
    models = [path.resolve() for path in options.model] or [demo.target_path()]
    names = tuple(model.name for model in models)
    if len(set(names)) < len(names):
        sys.exit(f"Error: two models are called alike ({', '.join(names)}); rename a folder")
    if set(UNQUANTIZED) <= set(options.only_load):
        sys.exit(f"Error: --only-load names {' and '.join(UNQUANTIZED)}; one must be the baseline")
    why_not = read_hardware().why_not_compiled
    if options.compile and why_not:
        sys.exit(f"Error: --compile needs what `paceline serve` needs to compile: {why_not}")
    settings = Settings(
        models=names,
        variants=tuple(options.variants),
        drafters=tuple(options.drafters),
        draft_length=options.draft_length,
        rounds=options.rounds,
        turn_prompts=options.turn_prompts,
        num_tokens=options.num_tokens,
        num_answers=options.num_answers,
        num_greedy=options.num_greedy,
        profiled_tokens=options.profiled_tokens,
        seed=options.seed,
        compiles=options.compile,
        only_loaded=tuple(options.only_load),
    )
    today = time.strftime("%Y-%m-%d", time.gmtime())
    result, document = begin_or_resume(
        options.results / f"quantize-formats-{today}.json.gz",
        options.resume,
        {
            "schema_version": 1,
            "kind": "number formats in stock vLLM",
            "environment": asdict(describe_environment(sys.argv)),
            "settings": asdict(settings),
            "is_complete": False,
            "summaries": {},
            **{name: [] for name in _RECORDS},
        },
        same=("settings",),
        but_for=("rounds",),
        allow_dirty=options.allow_dirty,
    )
    document["is_complete"] = False
    result.write(document)
    work = options.work.resolve() / sibling(result.path, "").name

    def save() -> None:
        document["summaries"] = {
            name: summarize(document, name)
            for name in names
            if any(load["model"] == name for load in document["loads"])
        }
        result.write(document)

    try:
        for model in models:
            _measure(model, settings, work / model.name, document, save)
    except KeyboardInterrupt:
        return end_incomplete(result.path)
    document["is_complete"] = True
    save()
    for name in names:
        print(_tables(document, name))
    print(f"written: {result.path}; folders: {work}")
    disagreements = [one["disagreements"] for one in document["summaries"].values()]
    failed = [*document["failures"], *(one for one in document["made"] if "error" in one)]
    return int(any(disagreements) or bool(failed))


def _measure(
    model: Path, settings: Settings, work: Path, document: dict[str, Any], save: Any
) -> None:
    work.mkdir(parents=True, exist_ok=True)
    items = json.loads(demo.heldout_path().read_text(encoding="utf-8"))
    calibration = work / "calibration.jsonl"
    write_calibration(items, calibration)
    campaign = Campaign(
        model=model,
        draft=demo.draft_path(),
        settings=settings,
        pairs=answer_pairs(items, model, settings.num_answers),
        calibration=calibration,
        work=work,
        document=document,
        save=save,
    )
    variants = with_baselines(settings.variants)
    campaign.make(variants)
    campaign.load(variants)
    campaign.measure(variants, "turns")
    campaign.measure_products()
    campaign.profile()


def _tables(document: dict[str, Any], model: str) -> str:
    def of_model(kind: str) -> list[dict[str, Any]]:
        return [one for one in document[kind] if one["model"] == model]

    summary = document["summaries"][model]
    kinds = ("made", "loads", "profiles", "failures")
    is_compiled = document["settings"]["compiles"]
    return render_model(model, summary, *map(of_model, kinds), is_compiled=is_compiled)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", type=Path, action="append", default=[], metavar="DIR",
        help="model folder with the tokenizer of the bundled pair; repeatable "
        "(default: the bundled target)",
    )  # fmt: skip
    parser.add_argument(
        "--variants", nargs="+", choices=list(VARIANTS), default=list(_OWN), metavar="NAME",
        help=f"besides the unquantized model: {', '.join(VARIANTS)} "
        f"(default: {' '.join(_OWN)})",
    )  # fmt: skip
    parser.add_argument(
        "--only-load", nargs="+", choices=list(VARIANTS), default=[], metavar="NAME",
        help="variants whose speed is not measured, only their quality",
    )  # fmt: skip
    parser.add_argument(
        "--compile", action="store_true", help="measure speed with compiled models (default: eager)"
    )
    parser.add_argument("--drafters", nargs="*", choices=DRAFTERS, default=list(DRAFTERS))
    parser.add_argument("--draft-length", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--turn-prompts", type=int, default=2)
    parser.add_argument("--num-tokens", type=int, default=64, help="per greedy answer")
    parser.add_argument("--num-answers", type=int, default=200, help="reference answers")
    parser.add_argument("--num-greedy", type=int, default=20, help="answers that are compared")
    parser.add_argument("--profiled-tokens", type=int, default=32, help="0 leaves the profile out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("runs"), help="for quantized folders")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_resume(parser)
    add_allow_dirty(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
