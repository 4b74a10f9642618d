"""Compare the step time of an engine held at draft length 0 with one without speculation.

Each kind of engine runs in its own process, without server or gateway. The engines take turns of
some steps, in a different order each round, so that other load on the machine affects all alike.
Each engine is kept at the same number of random prompts, sampled at the same temperature. The next
request follows each one that ends, so with short answers some steps contain prefills.

    python benchmarks/governor/held_at_zero.py --results benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline import demo
from paceline.foundation.results.environment import describe_environment

ARMS = ("none", "ngram", "draft_model")
"""The drafter that is held at length 0; `none` is without speculation."""
WARM_UP_STEPS = 100
MAX_DRAFT_LENGTH = 8
_LOWEST_TOKEN, _HIGHEST_TOKEN = 50, 900
"""Range of the prompts' token ids; every bundled tokenizer has them."""


class Engine:
    """A child process with one engine, which runs steps on request."""

    def __init__(self, arm: str, arguments: argparse.Namespace, log: Path) -> None:
        given = {**vars(arguments), "arm": arm, "results": None, "engine": None}
        self._log = log
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--engine", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
            bufsize=1,
        )
        self._read()

    def steps(self, number: int) -> list[float]:
        """Run this many steps; the duration of each in seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        return self._read()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _read(self) -> list[float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"an engine exited: {self._log.read_text()[-2000:]}")
        found: list[float] = json.loads(line)
        return found


def run_engine(given: dict[str, Any]) -> None:
    """Run in the child: read numbers of steps, write their durations, one line of JSON each."""
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
    os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_WAIT_POLICY": "passive"}
    from paceline.runtime.engine.fixes import numba_pool

    numba_pool.choose(is_child=True)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keep what vLLM prints out of the answers
    from vllm import LLM, SamplingParams

    engine = LLM(
        model=given["target"], max_model_len=2048, max_num_seqs=64, enforce_eager=True, seed=0,
        dtype=given["dtype"], **_speculation(given["arm"], given["draft"]),
    ).llm_engine  # fmt: skip
    draw, num_begun = random.Random(0), 0

    def step() -> float:
        nonlocal num_begun
        while engine.get_num_unfinished_requests() < given["requests"]:
            num_begun += 1
            ids = draw.choices(range(_LOWEST_TOKEN, _HIGHEST_TOKEN), k=given["prompt_tokens"])
            cut = draw.randrange(given["max_tokens"]) if num_begun <= given["requests"] else 0
            sampling = SamplingParams(
                temperature=given["temperature"],
                max_tokens=given["max_tokens"]
                - cut,  # so that the first ones end at different steps
                ignore_eos=True,
            )
            engine.add_request(f"request-{num_begun}", {"prompt_token_ids": ids}, sampling)
        began_s = time.perf_counter()
        engine.step()
        return time.perf_counter() - began_s

    answers.write("[]\n")
    for line in sys.stdin:
        answers.write(json.dumps([step() for _ in range(int(line))]) + "\n")


def _speculation(arm: str, draft: str) -> dict[str, Any]:
    if arm == "none":
        return {}
    speculative: dict[str, Any] = {"method": arm, "num_speculative_tokens": MAX_DRAFT_LENGTH}
    if arm == "ngram":
        speculative |= {"prompt_lookup_min": 2, "prompt_lookup_max": 4}
    else:
        speculative["model"] = draft
    return {
        "speculative_config": speculative,
        "scheduler_cls": "paceline.runtime.engine.scheduler.adaptive_scheduler.AdaptiveScheduler",
        "additional_config": {"paceline": {"policy": "off"}},
    }


def main() -> None:
    arguments = _parse()
    if arguments.engine:
        run_engine(json.loads(arguments.engine))
        return
    target, today = Path(arguments.target).name, time.strftime("%Y-%m-%d", time.gmtime())
    name = f"governor-held-at-zero-{target}-{arguments.requests}-{today}.json"
    result = (
        ResultFile(arguments.results / name, allow_dirty=arguments.allow_dirty)
        if arguments.results
        else None
    )
    rounds: list[dict[str, float]] = []
    with ExitStack() as stack:
        engines = {}
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for arm in ARMS:
            print(f"starting: {arm}", file=sys.stderr)
            engines[arm] = Engine(arm, arguments, logs / f"{arm}.log")
            stack.callback(engines[arm].close)
        for engine in engines.values():
            engine.steps(WARM_UP_STEPS)
        for number in range(arguments.rounds):
            order = [*ARMS[number % 3 :], *ARMS[: number % 3]]
            taken = {arm: engines[arm].steps(arguments.steps) for arm in order}
            rounds.append({arm: statistics.fmean(taken[arm]) for arm in ARMS})
    document = {
        "schema_version": 1,
        "kind": "held at zero",
        "environment": asdict(describe_environment(sys.argv)),
        "settings": {
            name: getattr(arguments, name)
            for name in ("requests", "temperature", "prompt_tokens", "max_tokens", "steps", "dtype")
        },
        "target": target,
        "ratios": {arm: _spread([one[arm] / one["none"] for one in rounds]) for arm in ARMS[1:]},
        "step_ms": {arm: _spread([1e3 * one[arm] for one in rounds]) for arm in ARMS},
        "rounds": rounds,
    }
    print(json.dumps({name: document[name] for name in ("settings", "ratios", "step_ms")}))
    if result:
        result.write(document)


def _spread(values: list[float]) -> dict[str, float]:
    """Median and quartiles of the means of the rounds."""
    low, _, high = statistics.quantiles(values, n=4)
    parts = {"median": statistics.median(values), "lower_quartile": low, "upper_quartile": high}
    return {name: round(value, 4) for name, value in parts.items()}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default=str(demo.target_path()))
    parser.add_argument("--draft", default=str(demo.draft_path()))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--requests", type=int, default=8, metavar="N")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--prompt-tokens", type=int, default=64, metavar="N")
    parser.add_argument("--max-tokens", type=int, default=256, metavar="N")
    parser.add_argument("--rounds", type=int, default=30, metavar="N")
    parser.add_argument("--steps", type=int, default=128, metavar="N", help="steps in each turn")
    parser.add_argument("--results", type=Path, metavar="FOLDER")
    add_allow_dirty(parser)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rounds < 4:
        parser.error(f"--rounds is {arguments.rounds}; it must be at least 4")
    return arguments


if __name__ == "__main__":
    main()
