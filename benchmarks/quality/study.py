"""Faulty folders that `paceline quality` must reject, and sound ones that it must not.

    python benchmarks/quality/study.py --work runs/quality --results benchmarks/results
    python benchmarks/quality/study.py --work runs/quality --results … --resume FILE

Every seed has its own prompts and another place for each fault. All folders pass through the three
tiers. The result is written after each seed. The exit code is 1 if a sound model is rejected, or if
the largest size of a fault is rejected in less than 95 % of the seeds, and 130 after Ctrl-C, which
loses the seed in hand. `--first-seed 0 --num-seeds 1` is a trial, with which sizes may be chosen;
the seeds from 100 are for the study alone. `--only FAULT` leaves out the rest, and
`--num-conversations` shows what more evidence decides: the faults of a seed are at the same places.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.interruption import end_incomplete
from benchmarks.quality.defects import DEFECTS, Defect, write_faulty
from benchmarks.quality.detection import DETECTED, detection_curve, summarize
from benchmarks.quality.prompts import names_of, score_lines, signature_tasks, write_prompts
from benchmarks.quality.sound import (
    NUM_CALIBRATIONS,
    W4A16,
    W8A8,
    SoundModel,
    make_folder,
    models_of,
)
from benchmarks.results_file import add_allow_dirty, add_resume, begin_or_resume
from paceline import demo
from paceline.foundation.answer_quality.decisions import Limits
from paceline.foundation.models.interruption import StopRequest, stop_on_signals
from paceline.foundation.models.progress import DraftProgress, draft_progress
from paceline.foundation.models.values import Interrupted, Sampling
from paceline.foundation.results.environment import describe_environment
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.workbench.quality.baseline import Baseline
from paceline.workbench.quality.candidate import CandidateReport, check_candidate
from paceline.workbench.quality.integrity import Target
from paceline.workbench.quality.options import CompareOptions
from paceline.workbench.quality.stored_scores import WorkFolder

LIMITS = Limits(perplexity_increase=0.05, score_loss=0.05)
"""Chosen: an approval takes some 100 conversations, and 250 at the default limits."""
SETTINGS = {
    "num_calibration_prompts": 64,
    "num_calibrations": NUM_CALIBRATIONS,
    "max_tokens": 96,
}
TEMPLATE = "chat template"
_LITERAL = re.compile(r"{%.*?%}|{{.*?}}|(?P<text>[^{]+)", re.DOTALL)
"""Parts of a Jinja template; `text` is what it prints as it is."""


def main() -> int:
    """Run what is missing and write the raw result after every seed; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of models and scores")
    parser.add_argument("--results", type=Path, required=True, help="folder of the raw result")
    add_resume(parser)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--num-seeds", type=int, default=20)
    parser.add_argument("--num-conversations", type=int, default=120, help="prompts of each seed")
    parser.add_argument(
        "--only", choices=[one.name for one in DEFECTS], help="this fault alone, no sound folders"
    )
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    environment = asdict(describe_environment(sys.argv))
    defects = [one for one in DEFECTS if arguments.only in (None, one.name)]
    begun = {
        "environment": environment,
        "settings": {"num_conversations": arguments.num_conversations}
        | SETTINGS
        | {
            "limits": asdict(LIMITS),
            "first_seed": arguments.first_seed,
            "num_seeds": arguments.num_seeds,
            "defects": [
                {"name": one.name, "base": one.base, "sizes": one.sizes, "what": one.what}
                for one in defects
            ],
        },
        "runs": [],
    }
    file, document = begin_or_resume(
        arguments.results / f"quality-study-{environment['date_utc'][:10]}.json.gz",
        arguments.resume, begun, same=("settings",), but_for=("num_seeds",),
        allow_dirty=arguments.allow_dirty,
    )  # fmt: skip
    arguments.work.mkdir(parents=True, exist_ok=True)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.num_seeds)
    try:
        with stop_on_signals() as stop, draft_progress() as progress:
            study = Study(arguments.work, arguments.num_conversations, progress, stop)
            for seed in seeds:
                if all(one["seed"] != seed for one in document["runs"]):
                    document["runs"] += study.run(seed, defects, is_whole=arguments.only is None)
                    file.write(document)
                    print(f"seed {seed}: {summarize(document['runs'])}", flush=True)
    except (Interrupted, KeyboardInterrupt):
        return end_incomplete(file.path)
    print(file.path)
    names = [one.name for one in defects]
    wrong = _wrong(document["runs"], names if arguments.only else [*names, TEMPLATE])
    print(wrong, file=sys.stderr)
    return int(bool(wrong))


def _wrong(runs: Sequence[Mapping[str, Any]], defects: Sequence[str]) -> str:
    """What the gate got wrong; "" if nothing."""
    found = {one["name"] for one in runs if one["is_sound"] and one["verdict"] == "rejected"}
    for defect in defects:
        curve = detection_curve(runs, defect)
        if not curve or curve[-1].num_rejected < DETECTED * curve[-1].num_seeds:
            found.add(defect)
    return f"wrong verdicts: {sorted(found)}" if found else ""


class Study:
    """The folders and what is compared with them."""

    def __init__(
        self, work: Path, num_conversations: int, progress: DraftProgress, stop: StopRequest
    ) -> None:
        self._work, self._progress, self._stop = work, progress, stop
        self._num_conversations = num_conversations
        num = SETTINGS["num_calibration_prompts"]
        self._calibrations = [
            signature_tasks(num, f"calibration {number}") for number in range(NUM_CALIBRATIONS)
        ]
        self._calibrated = names_of(one for some in self._calibrations for one in some)

    def run(self, seed: int, defects: Sequence[Defect], *, is_whole: bool) -> list[dict[str, Any]]:
        """These faults at all sizes, on the prompts of one seed.

        If `is_whole`, the fault of the chat template and some sound models, too.
        """
        with tempfile.TemporaryDirectory(dir=self._work, prefix=f"seed-{seed}-") as scratch:
            folder = Path(scratch)
            baseline = self._baseline(seed, folder)
            bases = {"w8a8": self._sound(W8A8), "w4a16": self._sound(W4A16)}
            rows = []
            for defect in defects:
                for size in defect.sizes:
                    faulty = write_faulty(defect, bases[defect.base], folder / "faulty", seed, size)
                    report = check_candidate(baseline, faulty)
                    rows.append(_row(defect.name, seed, report, is_sound=False, size=size))
            if not is_whole:
                return rows
            report = check_candidate(baseline, _lost_character(folder / "template", seed))
            rows.append(_row(TEMPLATE, seed, report, is_sound=False, size=1))
            for model in models_of(seed):
                report = check_candidate(baseline, self._sound(model))
                rows.append(_row(model.name, seed, report, is_sound=True, size=None))
        return rows

    def _sound(self, model: SoundModel) -> Path:
        return make_folder(model, self._work, self._calibrations)

    def _baseline(self, seed: int, folder: Path) -> Baseline:
        prompts = signature_tasks(
            self._num_conversations, f"evaluation {seed}", without=self._calibrated
        )
        hardware = read_hardware()
        options = CompareOptions(
            baseline=demo.target_path(),
            draft=None,
            prompts_file=write_prompts(folder / "prompts.jsonl", prompts),
            target=Target(hardware.hardware_class, "0.32", "auto"),
            dtype=torch.bfloat16,
            device=torch.device("cpu"),
            samplings=(Sampling(0.0),),
            max_tokens=SETTINGS["max_tokens"],
            max_draft_length=1,
            limit=None,
            seed=seed,
            checker=score_lines,
            limits=LIMITS,
            ends_at_fault=True,
        )
        baseline = Baseline(options, WorkFolder(folder / "scores"), self._progress, self._stop)
        baseline.measure()
        return baseline


def _lost_character(folder: Path, seed: int) -> Path:
    """The target with one character of its chat template lost."""
    shutil.copytree(demo.target_path(), folder)
    path = folder / "chat_template.jinja"
    template = path.read_text()
    literal = [at for part in _LITERAL.finditer(template) for at in range(*part.span("text"))]
    at = random.Random(f"{TEMPLATE} {seed}").choice(literal)
    path.write_text(template[:at] + template[at + 1 :])
    return folder


def _row(
    name: str, seed: int, report: CandidateReport, *, is_sound: bool, size: float | None
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name, "seed": seed, "is_sound": is_sound, "size": size,
        "verdict": str(report.decision.verdict), "tier": report.decision.tier,
        "reasons": list(report.decision.reasons),
    }  # fmt: skip
    if report.fidelity is not None and report.fidelity.ratio is not None:
        row |= {
            "ratio": round(report.fidelity.ratio.value, 4),
            "mean_kl_nats": round(report.fidelity.mean_kl_nats, 8),
            "perplexity_increase": round(report.fidelity.perplexity_increase.value, 6),
        }
    if report.outcomes is not None:
        row |= {
            "baseline_score": round(report.outcomes.baseline_score, 4),
            "candidate_score": round(report.outcomes.candidate_score, 4),
        }
    return row


if __name__ == "__main__":
    sys.exit(main())
