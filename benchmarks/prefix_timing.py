"""Measure whether a tenant can infer another tenant's prompts from the time to the first token.

Two servers with the bundled pair: one without API keys, where all clients share the prefix cache,
and one with the keys of two tenants, whose requests carry different cache salts. In each trial the
victim sends a new prompt. The attacker then times the same prompt and another new one of the same
form, in alternating order. The attacker wins a pair if the victim's prompt was the faster one; with
no information, half of the pairs are won.

    python benchmarks/prefix_timing.py
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from benchmarks.servers import running_servers
from paceline.cli import main as paceline
from paceline.foundation.results.environment import describe_environment

MODEL = "paceline-demo"
TENANTS = ("victim", "attacker")
NUM_LINES = 60
"""Of a prompt: about 900 tokens, several blocks of the prefix cache."""


def create_keys(folder: Path) -> tuple[Path, dict[str, str]]:
    """A key file with both tenants, and their keys."""
    file, keys = folder / "keys", {}
    for tenant in TENANTS:
        made = CliRunner().invoke(
            paceline, ["keys", "create", "--file", str(file), "--tenant", tenant]
        )
        if made.exit_code != 0:
            raise RuntimeError(made.output)
        keys[tenant] = made.stdout.strip()
    return file, keys


def server_plan(keys_file: Path | None) -> dict[str, Any]:
    """How `paceline serve` is started."""
    environment = {"PACELINE_ENGINE__KV_CACHE_BYTES": str(1024**3)}
    if keys_file is not None:
        environment["PACELINE_KEYS__FILE"] = str(keys_file)
    command = ["paceline", "serve", "bundled", "--port", "{port}", "--admin-port", "{admin_port}"]
    return {"command": command, "env": environment}


def new_prompt(rng: random.Random) -> str:
    """A prompt that shares no cache block with any other."""
    lines = [f"# {rng.getrandbits(64):016x}"]
    lines += [f"value_{n} = {rng.randrange(100)}" for n in range(NUM_LINES)]
    return "\n".join(lines)


def first_token_ms(http: httpx.Client, prompt: str, key: str | None) -> float:
    """Time until the first bytes of the answer's stream."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 1, "temperature": 0, "stream": True}
    started_s = time.perf_counter()
    with http.stream("POST", "/v1/completions", json=body, headers=headers) as answer:
        answer.raise_for_status()
        parts = answer.iter_raw()
        next(parts)
        taken_ms = 1e3 * (time.perf_counter() - started_s)
        for _ in parts:
            pass
    return taken_ms


def run_trial(
    http: httpx.Client, keys: Mapping[str, str], rng: random.Random, *, probes_seen_first: bool
) -> dict[str, float]:
    """The attacker's two times in one trial."""
    victims, other = new_prompt(rng), new_prompt(rng)
    first_token_ms(http, victims, keys.get("victim"))
    times = {}
    probes = [("seen_ms", victims), ("new_ms", other)]
    for name, prompt in probes if probes_seen_first else reversed(probes):
        times[name] = first_token_ms(http, prompt, keys.get("attacker"))
    return times


def summarise(trials: list[dict[str, float]]) -> dict[str, Any]:
    """Medians in ms, and the share of all pairs of a seen and a new prompt that are won."""
    seen, new = ([trial[name] for trial in trials] for name in ("seen_ms", "new_ms"))
    won = [s < n for s, n in itertools.product(seen, new)]
    return {
        "num_trials": len(trials),
        "seen_median_ms": statistics.median(seen),
        "new_median_ms": statistics.median(new),
        "won_fraction": sum(won) / len(won),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--num-trials", type=int, default=100, help="per server")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    name = f"prefix-timing-{environment.date_utc[:10]}.json"
    result = ResultFile(arguments.results / name, allow_dirty=arguments.allow_dirty)
    folder = Path(tempfile.mkdtemp(prefix="prefix-timing-"))
    keys_file, keys = create_keys(folder)
    plan = {"servers": {"shared": server_plan(None), "salted": server_plan(keys_file)}}
    given: dict[str, dict[str, str]] = {"shared": {}, "salted": keys}
    trials: dict[str, list[dict[str, float]]] = {name: [] for name in given}
    rng = random.Random(0)
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(running_servers(plan, folder))
        clients = {
            name: stack.enter_context(httpx.Client(base_url=server.url, timeout=60))
            for name, server in servers.items()
        }
        for number in range(-5, arguments.num_trials):  # the first five warm up
            for name, http in clients.items():
                trial = run_trial(http, given[name], rng, probes_seen_first=number % 2 == 0)
                if number >= 0:
                    trials[name].append(trial)
    document = {
        "schema_version": 1,
        "kind": "prefix timing",
        "environment": asdict(environment),
        "summary": {name: summarise(of_server) for name, of_server in trials.items()},
        **trials,
    }
    result.write(document)
    print(json.dumps(document["summary"], indent=1), f"written: {result.path}")


if __name__ == "__main__":
    main()
