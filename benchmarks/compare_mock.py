"""Real runs of `paceline bench compare` on mock vLLM servers whose difference is known.

Two mock servers in processes of their own; B's time per output token is that of A, or 3 % more.
Each comparison starts new servers and runs the command as a user does.

    python benchmarks/compare_mock.py --comparisons 10 --minutes 2 --results benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment
from paceline.testing.mock_vllm.spawn import spawn_mock_vllm

TPOT_MS = 20.0
CONCURRENCY = 4
MAX_TOKENS = 32
_COMMAND = "from paceline.cli import main; main(prog_name='paceline')"
_FLAGS = ("--eos-every-tokens", "0", "--prefill-tokens-per-s", "100000")


def compare_once(difference: float, seed: int, minutes: float, folder: Path) -> dict[str, Any]:
    """One comparison; what the report says, and the true relative difference of the TPOT."""
    report = folder / "compare.json"
    report.unlink(missing_ok=True)
    with (
        spawn_mock_vllm("--tpot-ms", str(TPOT_MS), *_FLAGS) as a,
        spawn_mock_vllm("--tpot-ms", str(TPOT_MS * (1 + difference)), *_FLAGS) as b,
    ):
        words = [
            *("bench", "compare", a.url, b.url, "--json", str(report), "--seed", str(seed)),
            *("--concurrency", str(CONCURRENCY), "--max-tokens", str(MAX_TOKENS)),
            *("--max-minutes", str(minutes), "--workload", "predictable"),
        ]
        done = subprocess.run(
            [sys.executable, "-c", _COMMAND, *words], capture_output=True, text=True, check=False
        )
    if not report.exists():
        raise RuntimeError(f"the comparison exited with {done.returncode}:\n{done.stderr}")
    document = json.loads(report.read_text(encoding="utf-8"))
    blocks = document["blocks"]
    return {
        "true_tpot_difference": difference,
        "seed": seed,
        "exit_code": done.returncode,
        "minutes": round((blocks[-1]["started_s"] + blocks[-1]["window_s"]) / 60, 2),
        **{key: document[key] for key in ("verdict", "reason", "difference", "aa", "num_rounds")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comparisons", type=int, default=10, help="of each kind")
    parser.add_argument("--minutes", type=float, default=2.0, help="bound on a comparison")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    today = time.strftime("%Y-%m-%d", time.gmtime())
    result = ResultFile(
        arguments.results / f"compare-mock-{today}.json", allow_dirty=arguments.allow_dirty
    )
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "compare on mock servers",
        "environment": asdict(describe_environment(sys.argv)),
        "settings": {
            "tpot_ms": TPOT_MS,
            "concurrency": CONCURRENCY,
            "max_tokens": MAX_TOKENS,
            "max_minutes": arguments.minutes,
        },
        "runs": [],
    }
    with tempfile.TemporaryDirectory(prefix="compare-mock-") as folder:
        for seed in range(arguments.comparisons):
            for difference in (0.0, 0.03):
                run = compare_once(difference, seed, arguments.minutes, Path(folder))
                document["runs"].append(run)
                result.write(document)
                print(f"{100 * difference:g} %: {run['verdict']}: {run['reason']}", flush=True)
    print(f"written: {result.path}")


if __name__ == "__main__":
    main()
