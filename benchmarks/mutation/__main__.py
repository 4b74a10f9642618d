"""Count the changes of a module that its unit tests notice.

    pip install --no-deps --target .clients/mutation -r requirements/mutation.lock
    python -m benchmarks.mutation --cosmic-ray .clients/mutation src/paceline/runtime/governor

Each mutant (`mutants.py`) is tested alone, by the tests of its module (`targets.py`), in a process
of its own (`trial.py`). A mutant that no test notices survives. Survivors that change nothing a
test should rely on are listed in `accepted.toml` with the reason; the others are printed. They all
count against the score. With `--json`, the result is written there.

With `--sample N`, at most N mutants of each module are tested, drawn by the digest of their source,
so that the same module always gives the same sample. The share of all mutants that would be killed
is then estimated (`sampling.py`), with its 95 % interval.

Outcomes are kept in `--state` (`known.py`), so that an interrupted run continues, and after a new
test only the survivors run again; `--fresh` forgets them.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.mutation.known import Known
from benchmarks.mutation.mutants import Mutant, make_mutants
from benchmarks.mutation.sampling import draw, killed_share
from benchmarks.mutation.targets import ROOT, is_judged, judges_of, module_of
from benchmarks.mutation.trial import run_trial
from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment

_ACCEPTED = Path(__file__).with_name("accepted.toml")


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test noticed."""

    line: int
    operator: str
    change: str
    reason: str | None
    """Why no test should notice it; None if one should."""


@dataclass(frozen=True, slots=True)
class Score:
    """The mutants of one module."""

    file: str
    tests: tuple[str, ...]
    num_mutants: int
    """All that can be made of the module."""
    num_tested: int
    num_killed: int
    """Of those tested."""
    num_timeouts: int
    """Killed by the time limit, for example an endless loop."""
    survivors: tuple[Survivor, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 1 if a survivor has no reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="source files or folders of them")
    parser.add_argument("--cosmic-ray", type=Path, help="folder that holds cosmic-ray")
    parser.add_argument("--state", type=Path, default=ROOT / ".mutation", help="folder of outcomes")
    parser.add_argument("--fresh", action="store_true", help="forget known outcomes")
    parser.add_argument("--sample", type=int, metavar="N", help="test at most N of each module")
    parser.add_argument("--json", type=Path, help="where to write the result")
    add_allow_dirty(parser)
    options = parser.parse_args(arguments)
    if options.sample is not None and options.sample < 1:
        parser.error(f"--sample is {options.sample}; at least 1 mutant of each module is needed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that known outcomes are written
    result = options.json and ResultFile(options.json, allow_dirty=options.allow_dirty)
    if options.cosmic_ray is not None:
        sys.path.append(str(options.cosmic_ray))
    started_s = time.monotonic()
    scores = [
        score_module(path, options.state, sample=options.sample, fresh=options.fresh)
        for path in _files(options.paths)
    ]
    num_tested = sum(score.num_tested for score in scores)
    num_killed = sum(score.num_killed for score in scores)
    share = killed_share(
        (score.num_mutants, score.num_tested, score.num_killed) for score in scores
    )
    print(f"killed {num_killed} of {num_tested}; of all mutants {share.describe()}")
    if result is not None:
        document = {
            "environment": asdict(describe_environment(sys.argv)),
            "tool": f"cosmic-ray {version('cosmic-ray')} and two operators of benchmarks/mutation",
            "duration_s": round(time.monotonic() - started_s),
            "num_mutants": sum(score.num_mutants for score in scores),
            "num_tested": num_tested,
            "num_killed": num_killed,
            "killed_share": asdict(share),
            "files": [asdict(score) for score in scores],
        }
        result.write(document)
    return int(any(found.reason is None for score in scores for found in score.survivors))


def score_module(path: Path, state: Path, *, sample: int | None, fresh: bool) -> Score:
    """Run the mutants of one module, at most `sample` of them, whose outcome is not known from an
    earlier run."""
    source = path.read_text()
    tests = judges_of(path)
    relative = str(path.resolve().relative_to(ROOT))
    made = list(make_mutants(source))
    mutants = made if sample is None else draw(made, sample)
    known_path = state / f"{relative.replace('/', '.')}.json"
    known = Known.read(known_path, source, tests)
    if fresh:
        known.outcomes.clear()
    if any(mutant.source not in known for mutant in mutants):
        try:
            _run(path.resolve(), source, tests, mutants, known)
        finally:
            known.write(known_path)
    survivors = [mutant for mutant in mutants if known[mutant.source] == "passed"]
    score = Score(
        file=relative,
        tests=tuple(tests),
        num_mutants=len(made),
        num_tested=len(mutants),
        num_killed=len(mutants) - len(survivors),
        num_timeouts=sum(known[mutant.source] == "timeout" for mutant in mutants),
        survivors=tuple(_describe(relative, mutant) for mutant in survivors),
    )
    print(f"{relative}: {score.num_killed} of {score.num_tested}", flush=True)
    for found in score.survivors:
        if found.reason is None:
            change = found.change.replace("\n", "\n    ")
            print(f"  line {found.line}, {found.operator}:\n    {change}", flush=True)
    return score


def _run(
    path: Path, source: str, tests: Sequence[str], mutants: Sequence[Mutant], known: Known
) -> None:
    module = module_of(path)
    first = run_trial(module, path, source, tests)
    if first.outcome != "passed":
        raise RuntimeError(f"the tests of the unchanged {path} end with {first.outcome}")
    baseline = run_trial(module, path, source, tests, first)
    for mutant in mutants:
        if mutant.source not in known:
            trial = run_trial(module, path, mutant.source, tests, baseline)
            if trial.outcome == "error":
                raise RuntimeError(f"pytest could not run {tests}")
            known[mutant.source] = trial.outcome


def _describe(file: str, mutant: Mutant) -> Survivor:
    return Survivor(mutant.line, mutant.operator, mutant.change, _reason(file, mutant.change))


def _reason(file: str, change: str) -> str | None:
    """The reason in `accepted.toml` whose file and change, or part of the change, are these."""
    accepted: dict[str, Any] = tomllib.loads(_ACCEPTED.read_text())
    for entry in accepted.get("survivor", []):
        if entry["file"] == file and entry["change"] in change:
            reason: str = entry["reason"]
            return reason
    return None


def _files(paths: Sequence[Path]) -> list[Path]:
    """The modules of the paths that unit tests judge, without `__init__.py` files."""
    found = [
        file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
    ]
    return [file for file in found if file.name != "__init__.py" and is_judged(file)]


if __name__ == "__main__":
    sys.exit(main())
