"""Compare the greedy answers of one engine in several processes with those of one process.

    python benchmarks/distributed.py
    python benchmarks/distributed.py --target runs/twin --prompts 40
    python benchmarks/distributed.py --resume benchmarks/results/distributed-bundled-….json.gz

Each arm is a `paceline serve`, one after the other: gateway, one replica, the governor. The first
one runs the model in one process without speculation and gives the reference. The others are two
tensor-parallel workers, with and without drafts, and two pipeline stages, on one node and on two
(network, mount and IPC name spaces of their own on this machine, which needs root). Every arm
answers the same held-out chats. Answers are compared token by token; at the first difference, the
reference's log-probabilities say whether the two tokens were a near-tie.

This shows that the answers are the same. It says nothing of speed: all processes share this
machine's cores. The result is written after each arm, with `is_complete: false` before the last
one; `--resume` completes it. The exit code is 1 if an answer differs by more than a near-tie, and
130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chaos.gateway_process import HTTP, GatewayProcess, start_gateway
from engine.serving.greedy_answers import GreedyAnswer, ask, compare
from engine.serving.two_nodes import node_network, start_over_two_nodes, why_no_network

from benchmarks.interruption import end_by_sigterm_too, end_incomplete
from benchmarks.results_file import ResultFile, add_allow_dirty, add_resume, begin_or_resume
from paceline import demo
from paceline.foundation.results.environment import Environment, describe_environment
from paceline.foundation.workloads.registry import load_workload
from paceline.workbench.audit.statistics.greedy import NEAR_TIE_NATS

MODEL = "distributed"
_TENSOR = ("--tensor-parallel-size", "2")
_PIPELINE = ("--pipeline-parallel-size", "2")
_LOG_LINES = re.compile(r"local_rank=\d+, core ids=.*|world_size=\d+ rank=\d+.*|CPU SHM .*")
"""Of an engine's log: how its processes are placed and connected."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One server."""

    vllm_args: tuple[str, ...] = ()
    has_drafts: bool = False
    has_two_nodes: bool = False


ARMS = {
    "one process": Arm(),
    "one process, drafts": Arm(has_drafts=True),
    "tensor parallel 2": Arm(_TENSOR),
    "tensor parallel 2, drafts": Arm(_TENSOR, has_drafts=True),
    "pipeline parallel 2": Arm(_PIPELINE),
    "pipeline parallel 2, two nodes": Arm(has_two_nodes=True),
}
"""No drafter runs in a pipeline on CPUs (`engine.compat.drafters.refused_in_pipeline`)."""
REFERENCE = next(iter(ARMS))


def main() -> int:
    """Run the arms that are missing; the exit code."""
    arguments = _parser().parse_args()
    end_by_sigterm_too()
    why = why_no_network()
    if why and any(ARMS[name].has_two_nodes for name in arguments.arms):
        sys.exit(f"Error: no second node: {why}. Leave the arm out with --arms")
    environment = describe_environment(sys.argv)
    name = "bundled" if arguments.target is None else arguments.target.name
    result, document = begin_or_resume(
        arguments.results / f"distributed-{name}-{environment.date_utc[:10]}.json.gz",
        arguments.resume,
        _begin(arguments, environment),
        same=("settings",),
        allow_dirty=arguments.allow_dirty,
    )
    try:
        _run_all(arguments, document, result, environment.commit)
    except KeyboardInterrupt:
        return end_incomplete(result.path)
    print(json.dumps(document["total"]), f"written: {result.path}", sep="\n")
    return 0 if document["total"]["is_passed"] else 1


def _begin(arguments: argparse.Namespace, environment: Environment) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "greedy answers of distributed engines",
        "environment": asdict(environment),
        "settings": {
            "target": "bundled" if arguments.target is None else arguments.target.name,
            "arms": list(dict.fromkeys([REFERENCE, *arguments.arms])),
            "num_prompts": arguments.prompts,
            "workload": arguments.workload,
            "max_tokens": arguments.max_tokens,
            "concurrency": arguments.concurrency,
            "dtype": arguments.dtype,
            "compile": arguments.compile,
            "policy": arguments.policy,
            "near_tie_nats": NEAR_TIE_NATS[arguments.dtype],
        },
        "is_complete": False,
        "total": sum_up([]),
        "runs": [],
    }


def _run_all(
    arguments: argparse.Namespace, document: dict[str, Any], result: ResultFile, commit: str | None
) -> None:
    """Add the arms that are missing; the result is written after each."""
    runs, ordered = document["runs"], document["settings"]["arms"]
    for name in ordered[len(runs) :]:
        print(f"starting: {name}", flush=True)
        run, answers = _run(arguments, ARMS[name])
        references = _read_answers(runs[0]) if runs else answers
        compared = judge(references, answers, document["settings"]["near_tie_nats"])
        written = _write_answers(answers, with_logprobs=not runs)
        runs.append({"arm": name, "commit": commit, **run, **compared, "answers": written})
        document["total"] = sum_up(runs)
        document["is_complete"] = len(runs) >= len(ordered)
        result.write(document)
        print(json.dumps({"arm": name, **compared, "governor": run["governor"]}), flush=True)


def judge(
    references: Sequence[GreedyAnswer], answers: Sequence[GreedyAnswer], near_tie_nats: float
) -> dict[str, Any]:
    """The counts of one arm, and every answer that differs from its reference."""
    compared = [compare(*pair) for pair in zip(references, answers, strict=True)]
    differing = [(index, one) for index, one in enumerate(compared) if one.differs]
    ties = sum(one.is_near_tie(near_tie_nats) for _, one in differing)
    return {
        "num_answers": len(answers),
        "num_tokens": sum(len(one.token_ids) for one in answers),
        "num_equal_tokens": sum(one.num_equal for one in compared),
        "num_equal_answers": len(compared) - len(differing),
        "num_near_ties": ties,
        "num_wrong": len(differing) - ties,
        "differences": [
            {"answer": index, "at": one.num_equal, "gap_nats": one.gap_nats}
            for index, one in differing
        ],
    }


def sum_up(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The counts of all arms but the reference."""
    others = runs[1:]
    counts = ("num_answers", "num_equal_answers", "num_equal_tokens", "num_near_ties", "num_wrong")
    total = {name: sum(run[name] for run in others) for name in counts}
    gaps = [one["gap_nats"] for run in others for one in run["differences"]]
    return {
        "is_passed": bool(others) and total["num_wrong"] == 0,
        **total,
        "largest_gap_nats": max((gap for gap in gaps if gap is not None), default=None),
    }


def _run(arguments: argparse.Namespace, arm: Arm) -> tuple[dict[str, Any], list[GreedyAnswer]]:
    """Start the server, ask it everything, and read what its governor did."""
    config = render_config(arguments, arm)
    folder = Path(tempfile.mkdtemp(prefix="distributed-"))
    start_s = time.monotonic()
    with _start(folder, config, arm, arguments.ready_within_s) as gateway:
        ready_s = time.monotonic()
        answers = ask(
            gateway.url,
            MODEL,
            _prompts(arguments.workload, arguments.prompts),
            max_tokens=arguments.max_tokens,
            concurrency=arguments.concurrency,
        )
        run = {
            "config": config,
            "start_s": round(ready_s - start_s, 1),
            "answering_s": round(time.monotonic() - ready_s, 1),
            "governor": _governor(gateway),
            "gateway_metrics": {
                name: value
                for name, value in gateway.metrics().items()
                if name.startswith(("paceline_governor_", "paceline_requests_total"))
            },
            "placement": _LOG_LINES.findall((folder / "engine-0.log").read_text(errors="replace")),
        }
    return run, answers


def render_config(arguments: argparse.Namespace, arm: Arm) -> dict[str, Any]:
    """The settings of an arm's server."""
    target = demo.target_path() if arguments.target is None else arguments.target.resolve()
    engine = {
        "model": str(target),
        "served_name": MODEL,
        "draft": str(demo.draft_path()) if arm.has_drafts else "none",
        "policy": arguments.policy,
        "dtype": arguments.dtype,
        "compile": arguments.compile,
        "kv_cache_bytes": arguments.kv_cache_mib * 1024**2,
        "start_timeout_s": arguments.ready_within_s,
        "vllm_args": list(arm.vllm_args),
    }
    return {"engine": engine}


@contextlib.contextmanager
def _start(
    folder: Path, config: dict[str, Any], arm: Arm, ready_within_s: float
) -> Iterator[GatewayProcess]:
    if not arm.has_two_nodes:
        with start_gateway(folder, config, ready_within_s=ready_within_s) as gateway:
            yield gateway
        return
    with (
        node_network() as network,
        start_over_two_nodes(folder, config, network, ready_within_s=ready_within_s) as started,
    ):
        yield started[0]


def _governor(gateway: GatewayProcess) -> dict[str, Any] | None:
    """The state of the engine's governor; None without drafts, when there is nothing to govern."""
    states = HTTP.get(f"{gateway.admin_url}/admin/governor").json()["replicas"]
    (state,) = states.values()
    return None if "error" in state else dict(state)


def _prompts(workload: str, number: int) -> list[str]:
    """Held-out chats of one message, repeated if there are fewer."""
    chats = [prompt.messages for prompt in load_workload(workload).prompts(seed=0)]
    texts = [str(chat[0]["content"]) for chat in chats if chat is not None and len(chat) == 1]
    return [texts[index % len(texts)] for index in range(number)]


def _write_answers(answers: Sequence[GreedyAnswer], *, with_logprobs: bool) -> list[dict[str, Any]]:
    return [
        {
            "token_ids": list(one.token_ids),
            **({"logprobs": [dict(at) for at in one.logprobs]} if with_logprobs else {}),
        }
        for one in answers
    ]


def _read_answers(run: Mapping[str, Any]) -> list[GreedyAnswer]:
    return [
        GreedyAnswer(
            tuple(one["token_ids"]),
            tuple({int(token): value for token, value in at.items()} for at in one["logprobs"]),
        )
        for one in run["answers"]
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", type=Path, help="default: the bundled target")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--prompts", type=int, default=40, help="chats of each arm")
    parser.add_argument("--workload", default="mixed", help="a built-in one, for its prompts")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--concurrency", type=int, default=4, help="chats at a time")
    parser.add_argument("--dtype", choices=list(NEAR_TIE_NATS), default="float32")
    parser.add_argument("--compile", action="store_true", help="torch.compile the models")
    parser.add_argument("--policy", default="goodput")
    parser.add_argument("--kv-cache-mib", type=int, default=512, help="of each worker")
    parser.add_argument("--ready-within-s", type=float, default=1200.0)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_resume(parser)
    add_allow_dirty(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
