"""Warnings of `paceline doctor` about a server whose load changes and fits.

    python benchmarks/doctor_silence.py --results benchmarks/results
    python benchmarks/doctor_silence.py --resume benchmarks/results/doctor-silence-DATE.json

One `paceline serve` of the bundled pair with its defaults, as `make serve` starts it, or with
`--vllm-options`, under a load that changes every minute or two (`benchmarks/changing_load.py`) and
is always within its slots. Meanwhile one `paceline doctor` after the other observes it for the
default 15 s: in turn the admin port, and the engine's own vLLM, which listens on a private socket
and is reached through a relay. Warnings are false, but for `prefill-stalls` on a machine whose
steps with long prompts take longer than `--max-pause-ms`: its evidence has their times.

The result is written after each diagnosis, and `--resume` completes it to `--minutes` in all. It
has the document of every diagnosis with a finding above `info`, counts the `info` findings, and
says how often each check passed: a check without a verdict is silent for another reason. The exit
code is 1 if there was a warning or a critical finding, if a diagnosis could not be made, or if the
load was not healthy because the server failed a request; 130 after Ctrl-C. Give the machine nothing
else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.changing_load import ChangingLoad, describe_kinds, num_failed, phases
from benchmarks.interruption import end_by_sigterm_too, end_incomplete
from benchmarks.results_file import (
    ResultFile,
    add_allow_dirty,
    add_resume,
    begin_or_resume,
)
from benchmarks.servers import Server, descendants, running_server
from paceline.foundation.named_models import BUNDLED_NAME
from paceline.foundation.results.environment import describe_environment

ADMIN, ENGINE = "admin port", "engine"
_PACELINE = [sys.executable, "-c", "from paceline.cli import main; main(prog_name='paceline')"]
_SERVE = [*_PACELINE, "serve", "bundled", "--port", "{port}", "--admin-port", "{admin_port}"]
_DOCTOR_TIMEOUT_S = 120.0
"""Eight times the time of an observation; a doctor that takes longer is a failure."""
_RELAYED_BYTES = 65_536

Diagnosis = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """What determines a run, apart from its length."""

    shortest_phase_s: float = 60.0
    longest_phase_s: float = 120.0
    seed: int = 0
    vllm_options: tuple[str, ...] = ()
    """Of the engine, beside those that `paceline serve` chooses."""


def main() -> int:
    """Observe for as long as is missing; the exit code."""
    options = _parser().parse_args()
    end_by_sigterm_too()
    environment = asdict(describe_environment(sys.argv))
    plan = Plan(
        options.shortest_phase, options.longest_phase, options.seed,
        tuple(shlex.split(options.vllm_options)),
    )  # fmt: skip
    file, document = begin_or_resume(
        options.results / f"doctor-silence-{environment['date_utc'][:10]}.json",
        options.resume,
        {
            "schema_version": 1,
            "kind": "doctor silence",
            "environment": environment,
            "settings": {**asdict(plan), "vllm_options": list(plan.vllm_options)},
            "minutes": options.minutes,
            "kinds_of_load": describe_kinds(),
            "is_complete": False,
            "summary": {},
            "load": [],
            "diagnoses": [],
        },
        same=("settings", "minutes"),
        but_for=("minutes",),
        allow_dirty=options.allow_dirty,
    )
    try:
        observe_server(document, plan, options.minutes, lambda: _keep(document, file))
    except KeyboardInterrupt:
        return end_incomplete(file.path)
    document["is_complete"] = True
    _keep(document, file)
    print(json.dumps(document["summary"], indent=1), f"written: {file.path}", sep="\n")
    return 0 if document["summary"]["is_passed"] else 1


def _keep(document: dict[str, Any], file: ResultFile) -> None:
    document["summary"] = summarize(document)
    file.write(document)


def observe_server(
    document: dict[str, Any], plan: Plan, minutes: float, keep: Callable[[], None]
) -> None:
    """Start a server, and add diagnoses and load to the document until it has `minutes` of them.

    `keep` is called after each diagnosis. Raises RuntimeError if the server does not start, has no
    engine, or ends.
    """
    with (
        tempfile.TemporaryDirectory(prefix="doctor-silence-") as folder,
        running_server("bundled", {"command": _serve(plan)}, Path(folder)) as server,
    ):
        asyncio.run(_observe(server, Path(folder), document, plan, 60 * minutes, keep))


def _serve(plan: Plan) -> list[str]:
    return [*_SERVE, *(("--", *plan.vllm_options) if plan.vllm_options else ())]


async def _observe(
    server: Server,
    folder: Path,
    document: dict[str, Any],
    plan: Plan,
    seconds: float,
    keep: Callable[[], None],
) -> None:
    seed = plan.seed + len(document.get("resumed_in", ()))
    order = phases(seed, plan.shortest_phase_s, plan.longest_phase_s)
    load = ChangingLoad(server.url, BUNDLED_NAME, order, seed)
    before = document["load"]
    async with relayed(engine_socket(server)) as engine_url:
        urls = {ADMIN: server.admin_url, ENGINE: engine_url}
        sending = asyncio.create_task(load.run())
        await asyncio.sleep(0)  # it begins with the first phase
        try:
            while observed_s(document["diagnoses"]) < seconds and not sending.done():
                if (code := server.process.poll()) is not None:
                    raise RuntimeError(f"the server ended with {code}; see {server.log}")
                number = len(document["diagnoses"])
                target = list(urls)[number % len(urls)]
                first = load.current
                found = await diagnose(urls[target], folder / "diagnosis.json")
                kinds = list(dict.fromkeys([first, load.current]))
                entry = {"number": number, "target": target, "load": kinds, **found}
                document["diagnoses"].append(entry)
                document["load"] = [*before, *load.sent]
                print(render_line(entry), flush=True)
                keep()
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
    document["load"] = [*before, *load.sent]


async def diagnose(url: str, file: Path) -> Diagnosis:
    """Run `paceline doctor URL` as a user does: an entry of the result.

    The whole document is part of it unless nothing above `info` was found.
    """
    begun_s = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *_PACELINE, "doctor", url, "--json", str(file),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_DOCTOR_TIMEOUT_S):
            _, errors = await process.communicate()
    except TimeoutError:
        errors = f"no diagnosis within {_DOCTOR_TIMEOUT_S:g} s".encode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    ended = {"seconds": round(time.monotonic() - begun_s, 1), "exit_code": process.returncode}
    return {**ended, **judged(_take(file), errors.decode(errors="replace")[-1000:])}


def _take(file: Path) -> dict[str, Any] | None:
    """The document of the file, which is then deleted; None without one."""
    try:
        document: dict[str, Any] = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    file.unlink()
    return document


def judged(document: Mapping[str, Any] | None, errors: str) -> Diagnosis:
    """What the result keeps of the document of a diagnosis; None if there is none."""
    if document is None:
        return {"above_info": [], "info": [], "verdicts": [], "errors": errors, "document": None}
    findings = document["findings"]
    above = [one["id"] for one in findings if one["severity"] != "info"]
    return {
        "above_info": above,
        "info": [one["id"] for one in findings if one["severity"] == "info"],
        "verdicts": document["passed"],
        **({"document": document} if above else {}),
    }


def observed_s(diagnoses: Sequence[Diagnosis]) -> float:
    """How long the diagnoses took together."""
    return float(sum(one["seconds"] for one in diagnoses))


def summarize(document: Mapping[str, Any]) -> dict[str, Any]:
    """Counts, and whether the doctor was silent on a healthy server."""
    diagnoses, load = document["diagnoses"], document["load"]
    not_made = [one["number"] for one in diagnoses if one.get("document", "") is None]
    above = Counter(name for one in diagnoses for name in one["above_info"])
    outcomes: Counter[str] = Counter()
    for phase in load:
        outcomes.update(phase["outcomes"])
    is_silent = bool(diagnoses) and not above and not not_made
    is_healthy = outcomes["ok"] > 0 and num_failed(load) == 0
    return {
        "num_diagnoses": len(diagnoses),
        "observed_minutes": round(observed_s(diagnoses) / 60, 1),
        "num_above_info": above.total(),
        "above_info": dict(above),
        "info": dict(Counter(name for one in diagnoses for name in one["info"])),
        "not_made": not_made,
        "requests": dict(outcomes),
        "passed_by_target": {
            target: dict(
                Counter(
                    check
                    for one in diagnoses
                    if one["target"] == target
                    for check in one["verdicts"]
                )
            )
            for target in (ADMIN, ENGINE)
        },
        "is_silent": is_silent,
        "is_load_healthy": is_healthy,
        "is_passed": is_silent and is_healthy,
    }


def render_line(entry: Diagnosis) -> str:
    """One diagnosis on one line.

    >>> entry = {"number": 3, "target": "engine", "load": ["idle", "bursts"], "seconds": 17.0}
    >>> render_line({**entry, "above_info": [], "info": [], "exit_code": 0})
    '3 engine, idle then bursts: silent'
    """
    found = [*entry["above_info"], *entry["info"]] or ["silent"]
    if entry.get("document", "") is None:
        found = [f"no diagnosis, exit code {entry['exit_code']}: {entry['errors']}"]
    return f"{entry['number']} {entry['target']}, {' then '.join(entry['load'])}: " + ", ".join(
        found
    )


def engine_socket(server: Server) -> Path:
    """The Unix socket on which the server's only engine answers."""
    for process in descendants(server):
        words = process.cmdline()
        if "--uds" in words[:-1]:
            return Path(words[words.index("--uds") + 1])
    raise RuntimeError(f"{server.name} has no engine with a socket; see {server.log}")


@asynccontextmanager
async def relayed(socket: Path) -> AsyncIterator[str]:
    """The URL of a TCP port whose connections go to the socket, unchanged.

    Connections that are open on exit are aborted.
    """
    relays: set[asyncio.Task[Any]] = set()
    open_writers: set[asyncio.StreamWriter] = set()

    async def relay(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        relays.add(task)
        open_writers.add(to_client)
        try:
            engine, to_engine = await asyncio.open_unix_connection(socket)
        except OSError:
            to_client.transport.abort()
            return
        open_writers.add(to_engine)
        requests = asyncio.create_task(_copy(client, to_engine))
        await _copy(engine, to_client)
        requests.cancel()
        for writer in (to_engine, to_client):
            writer.close()
            open_writers.discard(writer)

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in open_writers:
            writer.transport.abort()
        await asyncio.gather(*relays)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_RELAYED_BYTES):
            target.write(data)
            await target.drain()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--minutes", type=float, default=60.0, help="of diagnoses, in all pieces together")
    add("--shortest-phase", type=float, default=60.0, help="of the load, in seconds")
    add("--longest-phase", type=float, default=120.0, help="of the load, in seconds")
    add("--seed", type=int, default=0, help="of the load")
    add("--vllm-options", default="", help='such as "--max-num-batched-tokens 512"')
    add("--results", type=Path, default=Path(__file__).parent / "results")
    add_resume(parser)
    add_allow_dirty(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
