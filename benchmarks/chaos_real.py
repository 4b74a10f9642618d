"""Kill real engines twenty times under load and check that every stream survives.

    python benchmarks/chaos_real.py

Chats and completions, greedy and seeded, streamed and not streamed, run continuously against
`paceline serve --replicas 2` with the bundled pair. Meanwhile the replica with more requests is
killed: its process group, its engine core and its API server, in turn. Greedy answers are compared
with reference answers, token by token; where they differ, an engine computes how close the two
tokens were. Answers that no kill interrupted are the control. The exit code is 1 if a request was
lost before its first token, a stream was truncated silently, or a greedy answer left its reference
at a position that is not a near-tie.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chaos.engines import Victim
from chaos.gateway_process import GatewayProcess, start_gateway
from chaos.real_engines.killing import READY_WITHIN_S, KillingRun
from losslessness.greedy import NEAR_TIE_NATS

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.bench.results.environment import describe_environment
from paceline.demo import heldout_path

MODEL = "paceline-demo"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument(
        "--streams", type=int, default=12, help="concurrent streams when an engine is killed"
    )
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--max-tokens", type=int, default=192)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    result = ResultFile(
        arguments.results / f"chaos-real-{environment.date_utc[:10]}.json",
        allow_dirty=arguments.allow_dirty,
    )
    chats = [one for one in json.loads(heldout_path().read_text()) if "messages" in one]
    chosen = chats[:: len(chats) // arguments.questions][: arguments.questions]
    texts = [one["messages"][0]["content"] for one in chosen]
    folder = Path(tempfile.mkdtemp(prefix="chaos-real-"))
    config: dict[str, Any] = {
        "engine": {"replicas": 2},
        "server": {"granted_fields": ["ignore_eos"]},
    }
    with start_gateway(folder, config, ready_within_s=2 * READY_WITHIN_S) as gateway:
        run = KillingRun(
            gateway, MODEL, texts, max_tokens=arguments.max_tokens, seed=arguments.seed
        )
        document = asyncio.run(_run(run, gateway, arguments))
    document = {
        "schema_version": 1,
        "kind": "chaos over real engines",
        "environment": asdict(environment),
        **document,
    }
    result.write(document)
    shown = {name: document[name] for name in ("faults", "differences", "summary")}
    print(json.dumps(shown, indent=1), f"\nlog: {gateway.log}\nwritten: {result.path}")
    return 0 if document["is_passed"] else 1


async def _run(
    run: KillingRun, gateway: GatewayProcess, arguments: argparse.Namespace
) -> dict[str, Any]:
    kinds = list(Victim)
    victims = [kinds[i % len(kinds)] for i in range(arguments.kills)]
    await run.run(victims, arguments.streams)
    differences = await run.differences()
    errors = run.errors()
    far = [
        one
        for one in differences
        if one["gap_nats"] is not None and one["gap_nats"] > NEAR_TIE_NATS["bfloat16"]
    ]
    metrics = gateway.metrics()
    return {
        "is_passed": not errors and not far,
        "faults": errors,
        "differences": differences,
        "summary": run.summary(),
        "metrics": {
            name: value
            for name, value in metrics.items()
            if name.startswith(("paceline_requests", "paceline_continuations", "paceline_retries"))
        },
    }


if __name__ == "__main__":
    sys.exit(main())
