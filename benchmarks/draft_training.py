"""A draft distilled from scratch on new traffic: acceptance offline and served, and the throughput.

    python benchmarks/draft_training.py --work runs/draft-training
    python benchmarks/draft_training.py --work runs/draft-training --resume benchmarks/results/…

The traffic is the bundled pair's four tasks on functions of an installed package, which neither
model has seen. (1) `paceline draft train` cuts a draft from two layers of the bundled target and
distils it on the target's answers, with `--threads` compute threads for `--minutes`. (2)
`paceline draft eval` measures the new draft and the bundled one on chats about other functions. (3)
`paceline serve` serves the same chats with the new draft at a fixed length, and its counters are
compared with (2). (4) Servers of the twin, which has the target's output at the cost of 120M
parameters, answer the same chats in turns: without drafts (twice: the control), with the draft that
the training started from, with the bundled draft and with the new one, each under the governor.

The result is written after each step, and after each round of step 4, with `is_complete: false`
before the last. `--resume` completes it, with what is in `--work`. The exit code is 1 if the new
draft is not promoted or the served acceptance is another than the one measured offline, and 130
after Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.distillation.traffic import BUILDERS, chats_about, package_folder
from benchmarks.interruption import end_by_sigterm_too, end_incomplete
from benchmarks.results_file import ResultFile, add_allow_dirty, add_resume, begin_or_resume
from benchmarks.servers import Server, running_server, running_servers
from paceline import demo
from paceline.foundation.load.config import RunConfig
from paceline.foundation.results.environment import describe_environment
from paceline.workbench.bench.run.measure import measure
from paceline.workbench.bench.run.progress import terminal_progress

_PACELINE = [sys.executable, "-c", "from paceline.cli import main; main(prog_name='paceline')"]
_KV_CACHE = {"PACELINE_ENGINE__KV_CACHE_BYTES": str(256 << 20)}
_NUM_LAYERS = 2
"""As many as the bundled draft has."""
_TEMPERATURES = (0.0, 1.0)
_TOLERANCE = 0.02
WITHOUT, CONTROL, START, BUNDLED, TRAINED = "none", "none#again", "start", "bundled", "trained"


def main() -> int:
    """Run the missing steps; the exit code."""
    options = _parser().parse_args()
    end_by_sigterm_too()
    environment = asdict(describe_environment(sys.argv))
    settings = {
        key: getattr(options, key)
        for key in (
            "package", "tasks", "num_prompts", "num_tests", "minutes", "threads", "max_tokens",
            "draft_length", "answers_per_prompt", "rounds", "turn_requests", "concurrency", "seed",
        )
    }  # fmt: skip
    result, document = begin_or_resume(
        options.results / f"draft-training-{environment['date_utc'][:10]}.json",
        options.resume,
        {
            "schema_version": 1,
            "kind": "draft training",
            "environment": environment,
            "settings": settings,
            "is_complete": False,
            "training": None,
            "offline": {},
            "served": [],
            "turns": [],
            "summary": {},
        },
        same=("settings",),
        but_for=("rounds",),
        allow_dirty=options.allow_dirty,
    )
    try:
        _Course(options, document, result).run()
    except KeyboardInterrupt:
        return end_incomplete(result.path)
    print(json.dumps(document["summary"], indent=2), f"written: {result.path}", sep="\n")
    return 0 if document["summary"]["is_passed"] else 1


class _Course:
    """The steps in order. Each leaves out what the document already has."""

    def __init__(
        self, options: argparse.Namespace, document: dict[str, Any], result: ResultFile
    ) -> None:
        self._options, self._document, self._result = options, document, result
        self._work: Path = options.work.resolve()
        self._work.mkdir(parents=True, exist_ok=True)
        self._trained = self._work / "draft" / "draft"
        self._drafts = {BUNDLED: demo.draft_path(), TRAINED: self._trained}

    def run(self) -> None:
        self._write_prompts()
        self._train()
        self._measure_offline()
        self._measure_served()
        self._take_turns()
        self._document["is_complete"] = True
        self._save()

    def _save(self) -> None:
        self._document["summary"] = summarize(self._document)
        self._result.write(self._document)

    def _write_prompts(self) -> None:
        """The tests first, so that another number of training prompts leaves them as they are."""
        options = self._options
        num = options.num_tests + options.num_prompts
        num_each, rest = divmod(num, len(options.tasks))
        if rest:
            sys.exit(f"Error: {num} prompts do not divide by {len(options.tasks)} tasks")
        folder = package_folder(options.package)
        seed = f"draft training {options.seed}"
        chats = chats_about(folder, options.tasks, num_each, options.max_tokens, seed)
        for name, some in (
            ("test", chats[: options.num_tests]),
            ("train", chats[options.num_tests :]),
        ):
            lines = "".join(json.dumps(chat) + "\n" for chat in some)
            (self._work / f"{name}.jsonl").write_text(lines)

    def _train(self) -> None:
        if self._document["training"] is not None:
            return
        options, out = self._options, self._work / "draft"
        command = ["draft", "train", str(demo.target_path())]
        command += ["--prompts", str(self._work / "train.jsonl"), "--out", str(out)]
        command += ["--layers", str(_NUM_LAYERS), "--minutes", f"{options.minutes:g}"]
        command += ["--max-tokens", str(options.max_tokens), "--seed", str(options.seed)]
        command += ["--resume"] if out.exists() else []
        code = self._paceline(command, threads=options.threads, allowed=(0, 3))
        provenance = json.loads((self._trained / "paceline-provenance.json").read_text())
        self._document["training"] = {"exit_code": code, "provenance": provenance}
        self._save()

    def _measure_offline(self) -> None:
        for name, draft in self._drafts.items():
            if name in self._document["offline"]:
                continue
            report = self._evaluate(draft, f"offline-{name}")
            self._document["offline"][name] = report["acceptance"]
            self._save()

    def _evaluate(self, draft: Path, name: str, *more: str) -> dict[str, Any]:
        report = self._work / f"{name}.json"
        command = ["draft", "eval", str(demo.target_path()), "--draft", str(draft)]
        command += ["--prompts", str(self._work / "test.jsonl"), "--json", str(report)]
        command += ["--answers", str(self._work / "test-answers.jsonl")]
        command += ["--max-tokens", str(self._options.max_tokens)]
        command += ["--answers-per-prompt", str(self._options.answers_per_prompt)]
        command += ["--max-draft-length", str(self._options.draft_length), *more]
        self._paceline(command, threads=self._options.threads)
        found: dict[str, Any] = json.loads(report.read_text())
        return found

    def _measure_served(self) -> None:
        done = {one["temperature"] for one in self._document["served"]}
        if done.issuperset(_TEMPERATURES):
            return
        words = ["--policy", "fixed", "--draft-length-max", str(self._options.draft_length)]
        plan = _serve(demo.target_path(), self._trained, *words)
        with (
            tempfile.TemporaryDirectory(prefix="draft-training-") as logs,
            running_server("fixed length", plan, Path(logs)) as server,
        ):
            reports = {
                temperature: self._bench(server, temperature)
                for temperature in _TEMPERATURES
                if temperature not in done
            }
        for temperature, report in reports.items():
            name = f"compared-{temperature:g}"
            compared = self._evaluate(self._trained, name, "--served", str(report))
            self._document["served"].append(
                {"temperature": temperature, "comparison": compared["served"]}
            )
            self._save()

    def _bench(self, server: Server, temperature: float) -> Path:
        """Every test chat as often as it was answered offline, at the fixed length; the report."""
        times = self._options.answers_per_prompt if temperature else 1
        report = self._work / f"served-{temperature:g}.json"
        command = ["bench", "run", server.url, "--admin-url", server.admin_url]
        command += ["--prompts", str(self._work / "test.jsonl"), "--json", str(report)]
        command += ["--num-requests", str(times * self._options.num_tests), "--concurrency", "4"]
        self._paceline([*command, "--temperature", f"{temperature:g}"])
        return report

    def _take_turns(self) -> None:
        options, turns = self._options, self._document["turns"]
        if 1 + max((turn["round"] for turn in turns), default=-1) >= options.rounds:
            return
        twin, start = _twin(options.twin), _untrained(self._work / "start")
        drafts = {WITHOUT: "none", CONTROL: "none", START: start, **self._drafts}
        plans = {name: _serve(twin, draft) for name, draft in drafts.items()}
        with (
            tempfile.TemporaryDirectory(prefix="draft-training-") as logs,
            running_servers({"servers": plans}, Path(logs)) as servers,
        ):
            for (
                temperature
            ) in _TEMPERATURES:  # untimed: kernels, caches, the governors' first steps
                for server in servers.values():
                    self._turn(server, temperature, 0)
            first = 1 + max((turn["round"] for turn in turns), default=-1)
            for number in range(first, options.rounds):
                order = list(servers.values())[:: 1 if number % 2 == 0 else -1]
                for temperature in _TEMPERATURES:
                    for server in order:
                        found = self._turn(server, temperature, number + 1)
                        turns.append({"round": number, "server": server.name} | found)
                self._save()

    def _turn(self, server: Server, temperature: float, seed: int) -> dict[str, Any]:
        """The same chats for every server of a round, none of them in a prefix cache."""
        config = RunConfig(
            url=server.url,  # counters, where there are drafts, are found on the port after it
            prompts_file=str(self._work / "test.jsonl"), temperature=temperature,
            num_requests=self._options.turn_requests, concurrency=self._options.concurrency,
            seed=seed,
        )  # fmt: skip
        with terminal_progress() as progress:
            run = asyncio.run(measure(config, None, sys.argv, progress))
        if run.summary.num_errors:
            raise RuntimeError(f"{run.summary.num_errors} requests to {server.name} failed")
        speculation = run.speculation
        return {
            "temperature": temperature,
            "output_tokens_per_s": run.summary.output_tokens_per_s,
            "acceptance_rate": speculation.acceptance_rate,
            "tokens_per_step": speculation.acceptance_length,
        }

    def _paceline(
        self, words: Sequence[str], *, threads: int | None = None, allowed: Sequence[int] = (0,)
    ) -> int:
        """Run a command to its end; its exit code, which must be an allowed one."""
        print("paceline", *words, flush=True)
        more = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
        done = subprocess.run([*_PACELINE, *words], env={**os.environ, **more}, check=False)
        code = done.returncode
        if code not in allowed:
            raise SystemExit(f"paceline {' '.join(words[:2])} ended with exit code {code}")
        return code


def summarize(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the steps so far show. Ratios are to the server without drafts of the same round."""
    found: dict[str, Any] = {}
    training = document["training"]
    if training is not None:
        overall = training["provenance"]["held_out"]["overall"]
        found["held_out"] = {
            "start": overall["present"]["acceptance_rate"],
            "trained": overall["candidate"]["acceptance_rate"],
        }
        found["is_promoted"] = training["provenance"]["promoted"]
    differences = [
        abs(figure["difference"])
        for one in document["served"]
        for figure in one["comparison"]["figures"]
    ]
    if differences:
        found["largest_served_difference"] = max(differences)
    found["ratios"] = {
        f"{server} at temperature {temperature:g}": ratio
        for temperature in _TEMPERATURES
        for server in (CONTROL, START, BUNDLED, TRAINED)
        if (ratio := _ratio(document["turns"], server, temperature))
    }
    found["is_passed"] = bool(
        found.get("is_promoted") and differences and max(differences) <= _TOLERANCE
    )
    return found


def _ratio(
    turns: Sequence[Mapping[str, Any]], server: str, temperature: float
) -> dict[str, float] | None:
    """Tokens/s relative to no drafts: median, lowest and highest round; None without turns."""
    rates = {
        (turn["round"], turn["server"]): turn["output_tokens_per_s"]
        for turn in turns
        if turn["temperature"] == temperature
    }
    rounds = {number for number, _ in rates}
    ratios = [rates[number, server] / rates[number, WITHOUT] for number in sorted(rounds)]
    if not ratios:
        return None
    return {
        "median": statistics.median(ratios), "min": min(ratios), "max": max(ratios),
        "n": len(ratios),
    }  # fmt: skip


def _serve(target: Path, draft: Path | str, *more: str) -> dict[str, Any]:
    """The command of a server, for `benchmarks.servers`."""
    words = [*_PACELINE, "serve", str(target), "--draft", str(draft), *more]
    return {
        "command": [*words, "--port", "{port}", "--admin-port", "{admin_port}"],
        "env": _KV_CACHE,
    }


def _twin(folder: Path) -> Path:
    """The target at the cost of 120M parameters, made once."""
    if not (folder / "config.json").is_file():
        path = os.pathsep.join(
            [
                str(Path(__file__).resolve().parents[1] / "tools"),
                *filter(None, [os.environ.get("PYTHONPATH")]),
            ]
        )
        recipe = ["env", f"PYTHONPATH={path}", sys.executable, "-m", "demo_recipe.deepen"]
        subprocess.run([*recipe, str(demo.target_path()), str(folder)], check=True)
    return folder


def _untrained(folder: Path) -> Path:
    """The draft that the training starts from, made once."""
    if not (folder / "config.json").is_file():
        import torch

        from paceline.foundation.models.models import load_model
        from paceline.workbench.draft.training.provenance import render_unmeasured
        from paceline.workbench.draft.training.start import cut_from_target
        from paceline.workbench.draft.training.work_folder import write_draft

        target = load_model(demo.target_path(), torch.float32, torch.device("cpu"))
        start = cut_from_target(target, _NUM_LAYERS)
        write_draft(start, demo.target_path(), folder, render_unmeasured())
    return folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--work", type=Path, required=True, help="folder of prompts, answers and drafts")
    add("--twin", type=Path, default=Path("runs/twin"), help="made if it does not exist")
    add("--package", default="transformers", help="installed package whose functions are asked for")
    add("--tasks", nargs="+", choices=list(BUILDERS), default=list(BUILDERS))
    add("--num-prompts", type=int, default=1200, help="for the training")
    add("--num-tests", type=int, default=200, help="chats on which both drafts are measured")
    add("--minutes", type=float, default=30, help="of training")
    add("--threads", type=int, default=1, help="that compute in the training")
    add("--max-tokens", type=int, default=128, help="of an answer")
    add("--draft-length", type=int, default=5)
    add("--answers-per-prompt", type=int, default=10, help="to a test chat at temperature 1")
    add("--rounds", type=int, default=8, help="of turns of all servers")
    add("--turn-requests", type=int, default=8)
    add("--concurrency", type=int, default=1)
    add("--seed", type=int, default=0)
    add("--results", type=Path, default=Path(__file__).parent / "results")
    add_resume(parser)
    add_allow_dirty(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
