"""Run the sessions of real clients against `paceline serve` with the bundled pair.

    python benchmarks/gateway/client_sessions.py

Needs the clients that `make test-clients` installs. Every client runs one session per question, in
a process of its own: an answer, a stream, usage, JSON schema, errors, and a stream that the client
leaves (`tests/clients`). The exit code is 1 if a session gave a wrong result or failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from chaos.gateway_process import GatewayProcess, start_gateway
from clients.real_clients import CLIENTS, PACKAGES, QUESTION, run_session
from clients.real_sessions import FAILING, STEPS, find_faults

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.demo import heldout_path
from paceline.foundation.results.environment import describe_environment

ROOT = Path(__file__).resolve().parents[2]
NODE_CLIENTS = ROOT / "tests" / "clients" / "node" / "package.json"
MODEL = "paceline-demo"
READY_WITHIN_S = 400.0
FAILING_WITH_KEYS = {**FAILING, "bad key": (None, QUESTION, {})}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=int, default=4, help="sessions per client")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    result = ResultFile(
        arguments.results / f"client-sessions-{environment.date_utc[:10]}.json",
        allow_dirty=arguments.allow_dirty,
    )
    folder = Path(tempfile.mkdtemp(prefix="client-sessions-"))
    key = _create_key(folder / "keys")
    config = {"keys": {"file": str(folder / "keys")}}
    with start_gateway(folder, config, ready_within_s=READY_WITHIN_S) as gateway:
        sessions = asyncio.run(
            _run_all(gateway, key, arguments.clients, _questions(arguments.questions))
        )
    num_failed = sum(bool(session["faults"]) for session in sessions)
    document = {
        "schema_version": 1,
        "kind": "sessions of real clients",
        "environment": asdict(environment),
        "versions": client_versions(),
        "steps": list(STEPS),
        "num_clients": len(arguments.clients),
        "num_sessions": len(sessions),
        "num_failed": num_failed,
        "sessions": sessions,
    }
    result.write(document)
    for session in sessions:
        if session["faults"]:
            print(json.dumps(session, ensure_ascii=False, indent=1))
    print(f"{num_failed} of {len(sessions)} sessions failed\nwritten: {result.path}")
    return 1 if num_failed else 0


def _questions(num: int) -> list[str]:
    """The question of the tests, and held-out chats."""
    chats = [one for one in json.loads(heldout_path().read_text()) if "messages" in one]
    chosen = chats[:: len(chats) // num][: num - 1] if num > 1 else []
    return [QUESTION, *(one["messages"][0]["content"] for one in chosen)]


def _create_key(file: Path) -> str:
    command = [sys.executable, "-c", "from paceline.cli import main; main()", "keys", "create"]
    arguments = ["--file", str(file), "--tenant", "clients"]
    return subprocess.run(
        [*command, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


async def _run_all(
    gateway: GatewayProcess, key: str, clients: list[str], questions: list[str]
) -> list[dict[str, Any]]:
    """One session after the other."""
    sessions = []
    for question in questions:
        for name in clients:
            session = await _run_one(gateway, key, name, question)
            sessions.append(session)
            print(f"{name}: {session['faults'] or 'right'}", flush=True)
    return sessions


async def _run_one(gateway: GatewayProcess, key: str, name: str, question: str) -> dict[str, Any]:
    client = CLIENTS[name]
    start_s = time.monotonic()
    try:
        results = await run_session(
            client,
            f"{gateway.url}/v1",
            MODEL,
            key,
            *STEPS,
            question=question,
            failing=FAILING_WITH_KEYS,
        )
        faults = find_faults(client, results, FAILING_WITH_KEYS)
    except AssertionError as error:  # the session's process failed
        results, faults = {}, [str(error).strip().splitlines()[-1]]
    return {
        "client": name,
        "question": question,
        "faults": faults,
        "results": results,
        "seconds": round(time.monotonic() - start_s, 1),
    }


def client_versions() -> dict[str, str]:
    """The version of every package of the clients, by name."""
    found = {
        match[1].replace("_", "-"): match[2]
        for folder in sorted(PACKAGES.glob("*.dist-info"))
        if (match := re.fullmatch(r"(.+)-([^-]+)\.dist-info", folder.name))
    }
    found["openai"] = metadata.version("openai")
    return found | {
        f"npm:{name}": version
        for name, version in json.loads(NODE_CLIENTS.read_text())["dependencies"].items()
    }


if __name__ == "__main__":
    sys.exit(main())
