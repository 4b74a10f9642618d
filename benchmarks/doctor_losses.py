"""What `paceline doctor` says about drafts that lose, against the loss measured on real engines.

Sampled code is drafted with eight tokens, most of which are rejected. Servers, all alive at once:
plain vLLM without drafts, the same again as the control, plain vLLM with eight draft tokens, two
`paceline serve` held at eight draft tokens, and one held at none. The vLLM servers have the number
format, the threads and the corrected CPU sampler of Paceline, so that only drafts distinguish them.

1. The truth: the servers answer the same requests in turn, slice by slice.
2. The doctor reads the vLLM server with drafts, first while it serves such requests, then with
   `--probe`; its stated loss is compared with the truth.
3. `doctor --fix` on one of the two Paceline servers; then the turns again. The factor by which that
   server got faster is the quotient of its ratio to the other one after and before. The one that
   never drafts says what could be won back there: its gateway takes time from the same cores.

It exits with 1 unless all of this holds (`verdict` in the result):

- `found_in_time`: `--probe` on the vLLM server finds the loss within 90 s,
- `stated_within_a_fifth`: and states it within 20 % of the truth,
- `won_back`: `--fix` makes the Paceline server faster by at least 80 % of what drafts lose there,
  which is what the server that never drafts has more.

    python benchmarks/doctor_losses.py --results benchmarks/results

With the defaults this takes about 15 minutes; give the machine nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.headline.arms import Arm, ModelFolders, server_plan
from benchmarks.headline.http_arm import HttpArm, Load
from benchmarks.results_file import ResultFile, add_allow_dirty
from benchmarks.servers import Server, running_servers
from paceline.demo import draft_path, target_path
from paceline.foundation.results.environment import describe_environment
from paceline.foundation.workloads import SamplingSettings, build_spec, load_workload

LENGTH = 8
WITHOUT, CONTROL = Arm("vllm", has_layout=True), Arm("vllm", has_layout=True, label="again")
DRAFTS = Arm("vllm", has_layout=True, draft_length=LENGTH)
HELD, FIXED = Arm("paceline", label="held"), Arm("paceline", label="fixed")
OFF = Arm("paceline", label="off")
ARMS = (WITHOUT, CONTROL, DRAFTS, HELD, FIXED, OFF)
_KV_CACHE_BYTES = 256 << 20
_SEED_STRIDE = 1000
"""Between the seeds of two turns; above the number of requests of a turn."""
_PACELINE = [sys.executable, "-c", "from paceline.cli import main; main(prog_name='paceline')"]
_NORMAL_95 = 1.96
_WITHIN_S = 90.0
_STATED_OVER_TRUE = (0.8, 1.2)
_WON_BACK = 0.8
"""Of the loss. A governor that tries drafts now and then does not win back all of it."""


def main() -> None:
    """Measure, ask the doctor, compare."""
    arguments = _parser().parse_args()
    environment = describe_environment(sys.argv)
    result = ResultFile(
        arguments.results / f"doctor-losses-{environment.date_utc[:10]}.json",
        allow_dirty=arguments.allow_dirty,
    )
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "doctor losses",
        "environment": asdict(environment),
        "settings": {
            key: getattr(arguments, key)
            for key in ("pairs", "num_requests", "concurrency", "max_tokens", "seconds", "name")
        },
    }
    folders = ModelFolders(str(arguments.model), str(arguments.draft))
    plans = {arm.name: _plan(arm, folders) for arm in ARMS}
    with (
        tempfile.TemporaryDirectory(prefix="doctor-losses-") as logs,
        running_servers({"servers": plans}, Path(logs)) as servers,
    ):
        turns = _Turns(servers, arguments)
        turns.run(1)  # a warm-up, which is dropped
        document["before"] = turns.run(arguments.pairs)
        result.write(document)
        document["doctor"] = [
            _observed_under_load(servers[DRAFTS.name], arguments, Path(logs)),
            _doctor("--probe", servers[DRAFTS.name].url, arguments, Path(logs)),
        ]
        result.write(document)
        fixed = servers[FIXED.name]
        document["fix"] = _doctor(
            "--fix", fixed.admin_url, arguments, Path(logs), "--data-url", fixed.url
        )
        document["after"] = turns.run(arguments.pairs)
    document["summary"] = summarise(document)
    document["verdict"] = judge(document["summary"])
    result.write(document)
    print(json.dumps({key: document[key] for key in ("summary", "verdict")}, indent=1))
    print(f"written: {result.path}")
    sys.exit(0 if all(document["verdict"].values()) else 1)


def summarise(document: Mapping[str, Any]) -> dict[str, Any]:
    """The truth with its interval, and what the doctor said of it."""
    before, after = document["before"], document["after"]
    truth = ratio(before, DRAFTS.name, WITHOUT.name)
    fixed_before = ratio(before, FIXED.name, HELD.name)
    fixed_after = ratio(after, FIXED.name, HELD.name)
    factor = fixed_after["mean"] / fixed_before["mean"]
    possible = ratio([*before, *after], OFF.name, HELD.name)
    return {
        "drafts_over_none": truth,
        "control": ratio(before, CONTROL.name, WITHOUT.name),
        "doctor": [stated(visit, 1 - truth["mean"]) for visit in document["doctor"]],
        "fixed_over_held_before": fixed_before,
        "fixed_over_held_after": fixed_after,
        "fix_is_kept": (document["fix"]["diagnosis"]["fix"] or {}).get("is_kept", False),
        "fix_factor": round(factor, 4),
        "won_back_of_vllms_loss": round((factor - 1) / (1 / truth["mean"] - 1), 3),
        "off_over_held": possible,
        "won_back_of_possible": round((factor - 1) / (possible["mean"] - 1), 3),
        "fixed_over_off_after": ratio(after, FIXED.name, OFF.name),
        "drafted_per_token_after": statistics.fmean(
            turn[_drafted(FIXED)] for turn in after if _drafted(FIXED) in turn
        ),
    }


def judge(summary: Mapping[str, Any]) -> dict[str, bool]:
    """Whether each part of the requirement holds; the last visit of the vLLM server counts.

    >>> probe = {"seconds": 85.0, "stated_share": 0.4, "stated_over_true": 1.25}
    >>> judge({"doctor": [probe], "fix_is_kept": True, "won_back_of_possible": 0.9})
    {'found_in_time': True, 'stated_within_a_fifth': False, 'won_back': True}
    """
    probe = summary["doctor"][-1]
    is_found = probe["stated_share"] is not None
    low, high = _STATED_OVER_TRUE
    return {
        "found_in_time": is_found and probe["seconds"] <= _WITHIN_S,
        "stated_within_a_fifth": is_found and low <= probe["stated_over_true"] <= high,
        "won_back": summary["fix_is_kept"] and summary["won_back_of_possible"] >= _WON_BACK,
    }


def ratio(turns: Sequence[Mapping[str, float]], upper: str, lower: str) -> dict[str, float]:
    """Geometric mean of the quotients of the turns' tokens/s, with its 95 % interval.

    >>> turns = [{"a": 2.0, "b": 1.0}, {"a": 8.0, "b": 4.0}]
    >>> ratio(turns, "a", "b")
    {'mean': 2.0, 'low': 2.0, 'high': 2.0, 'num_turns': 2}
    """
    logs = [math.log(turn[upper] / turn[lower]) for turn in turns]
    middle = statistics.fmean(logs)
    half = _NORMAL_95 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    low, mean, high = (round(math.exp(at), 4) for at in (middle - half, middle, middle + half))
    return {"mean": mean, "low": low, "high": high, "num_turns": len(logs)}


def stated(visit: Mapping[str, Any], true_share: float) -> dict[str, Any]:
    """The loss that a diagnosis states for the drafts, beside the true share of tokens/s."""
    findings = visit["diagnosis"]["findings"]
    found = next((one for one in findings if one["id"] == "speculation-loses"), None)
    share = None if found is None else found["cost"]["share"]
    return {
        "options": visit["options"],
        "seconds": visit["seconds"],
        "summary": None if found is None else found["summary"],
        "stated_share": None if share is None else round(share, 4),
        "true_share": round(true_share, 4),
        "stated_over_true": None if share is None else round(share / true_share, 3),
    }


class _Turns:
    """Lets all servers answer the same requests in turn."""

    def __init__(self, servers: Mapping[str, Server], arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._arms = {arm.name: HttpArm(arm, servers[arm.name].url, 300.0) for arm in ARMS}
        self._prompts = load_workload("hard").prompts(0)
        self._number = 0

    def run(self, num_turns: int) -> list[dict[str, float]]:
        """Output tokens/s of each server in each turn; the order is reversed every second time."""
        found = []
        for _ in range(num_turns):
            order = ARMS if self._number % 2 == 0 else tuple(reversed(ARMS))
            turn = {}
            for arm in order:
                answered = self._arms[arm.name].run(self._load)
                turn[arm.name] = _tokens_per_s(answered)
                if arm.kind == "paceline":
                    turn[_drafted(arm)] = answered["drafted_tokens"] / _num_tokens(answered)
            self._number += 1
            print({name: round(rate, 2) for name, rate in turn.items()}, flush=True)
            found.append(turn)
        return found

    def _load(self, model: str) -> Load:
        """Code to continue, sampled at temperature 1: other prompts and seeds in every turn."""
        num_requests = self._arguments.num_requests
        sampling = SamplingSettings(
            model=model,
            temperature=1.0,
            top_p=None,
            max_tokens=self._arguments.max_tokens,
            seed=self._number * _SEED_STRIDE,
            extra_body={},
        )
        first = self._number * num_requests
        requests = [
            build_spec(self._prompts[(first + place) % len(self._prompts)], sampling, place)
            for place in range(num_requests)
        ]
        return Load(requests, self._arguments.concurrency)


def _drafted(arm: Arm) -> str:
    """The key of a turn for the arm's draft tokens per output token."""
    return f"{arm.name} drafted"


def _tokens_per_s(turn: Mapping[str, Any]) -> float:
    if turn["num_errors"]:
        raise RuntimeError(f"a request failed: {turn['error']}")
    return float(_num_tokens(turn) / turn["seconds"])


def _num_tokens(turn: Mapping[str, Any]) -> int:
    return sum(request[1] for request in turn["requests"])


def _plan(arm: Arm, folders: ModelFolders) -> dict[str, Any]:
    plan = server_plan(arm, folders, _KV_CACHE_BYTES)
    if arm.kind != "paceline":
        return plan
    held_at = {
        "PACELINE_ENGINE__POLICY": "fixed",
        "PACELINE_ENGINE__DRAFT_LENGTH": str(0 if arm == OFF else LENGTH),
    }
    return {**plan, "env": {**plan["env"], **held_at}}


def _observed_under_load(
    server: Server, arguments: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    """The doctor without `--probe`, beside a load of other making."""
    load = subprocess.Popen(
        [
            *_PACELINE, "bench", "run", server.url, "--workload", "hard", "--temperature", "1",
            "--concurrency", str(arguments.concurrency), "--max-tokens", str(arguments.max_tokens),
            "--duration", str(arguments.seconds + 20), "--json", str(folder / "load.json"),
        ],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        time.sleep(10.0)  # until the load has begun
        return _doctor("", server.url, arguments, folder)
    finally:
        load.terminate()
        load.wait(60.0)


def _doctor(
    option: str, url: str, arguments: argparse.Namespace, folder: Path, *more: str
) -> dict[str, Any]:
    path = folder / "diagnosis.json"
    words = [url, *([option] if option else []), *more]
    words += ["--seconds", str(arguments.seconds), "--concurrency", str(arguments.concurrency)]
    begun_s = time.monotonic()
    subprocess.run([*_PACELINE, "doctor", *words, "--json", str(path)], check=False)
    seconds = time.monotonic() - begun_s
    return {
        "options": option or "none, under load",
        "seconds": round(seconds, 1),
        "diagnosis": json.loads(path.read_text()),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=target_path())
    parser.add_argument("--draft", type=Path, default=draft_path())
    parser.add_argument("--name", default="bundled", help="of the pair, in the result")
    parser.add_argument("--pairs", type=int, default=12, help="turns before, and again after")
    parser.add_argument("--num-requests", type=int, default=12, help="of a turn")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument(
        "--seconds", type=float, default=38.0, help="of each part of a diagnosis: load, comparison"
    )
    parser.add_argument("--results", type=Path, required=True, metavar="FOLDER")
    add_allow_dirty(parser)
    return parser


if __name__ == "__main__":
    main()
