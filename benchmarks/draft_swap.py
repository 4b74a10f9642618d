"""Swap the draft of two real engines under load; measure acceptance and goodput before and after.

    python benchmarks/draft_swap.py
    python benchmarks/draft_swap.py --before auto --after drafts/mine/draft
    python benchmarks/draft_swap.py --resume benchmarks/results/draft-swap-….json

`paceline serve --replicas 2` with the bundled target drafts with `--before`. `paceline bench`
measures it; then streams of several kinds run all the time while the draft is swapped to `--after`
over the admin port, engine by engine; then the same requests are measured again. Every answer of
the swap is checked: greedy ones against reference answers from before it, token by token (where
they differ, an engine computes how probable every token was), sampled ones by whether their tokens
are among the most probable.

The result is written after each swap, with `is_complete: false` before the last one; `--resume`
completes it. The exit code is 1 if a swap did not complete, a request failed, or an answer changed
by more than near-ties, and 130 after Ctrl-C. `total` has these counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chaos.gateway_process import GatewayProcess, start_gateway
from chaos.real_engines.bundled import CONFIG, MODEL, NEAR_TIE_NATS, bundled_checks, prompts
from chaos.real_engines.engine_faults import READY_WITHIN_S
from chaos.real_engines.fault_run import EngineLoad, FaultRun
from chaos.real_engines.request_kinds import FAST_KINDS
from chaos.real_engines.run_report import count, find_errors
from chaos.transcript import Ending
from chaos.upgrades.draft_swap import drafts, swap_draft

from benchmarks.interruption import end_by_sigterm_too, end_incomplete
from benchmarks.results_file import ResultFile, add_allow_dirty, add_resume, begin_or_resume
from paceline.foundation.load.config import RunConfig
from paceline.foundation.results.environment import Environment, describe_environment
from paceline.foundation.results.slo import Slo
from paceline.workbench.bench.run.measure import measure
from paceline.workbench.bench.run.progress import terminal_progress


def main() -> int:
    """Swap as often as ordered; the exit code."""
    arguments = _parser().parse_args()
    end_by_sigterm_too()
    environment = describe_environment(sys.argv)
    result, document = begin_or_resume(
        arguments.results / f"draft-swap-{environment.date_utc[:10]}.json",
        arguments.resume,
        _begin(arguments, environment),
        same=("settings",),
        but_for=("repeats",),
        allow_dirty=arguments.allow_dirty,
    )
    try:
        _swap_all(arguments, document, result, environment.commit)
    except KeyboardInterrupt:
        return end_incomplete(result.path)
    print(json.dumps(document["total"]), f"written: {result.path}", sep="\n")
    return 0 if document["total"]["is_passed"] else 1


def _begin(arguments: argparse.Namespace, environment: Environment) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "draft swap under load",
        "environment": asdict(environment),
        "settings": {
            "before": arguments.before,
            "after": arguments.after,
            "policy": arguments.policy,
            "repeats": arguments.repeats,
            "num_streams": arguments.streams,
            "num_prompts": arguments.prompts,
            "max_tokens": arguments.max_tokens,
            "settle_s": arguments.settle_s,
            "workload": arguments.workload,
            "concurrency": arguments.concurrency,
            "num_requests": arguments.num_requests,
            "num_warmup": arguments.num_warmup,
            "slo": asdict(_slo(arguments)),
            "near_tie_nats": NEAR_TIE_NATS,
        },
        "draft_before": None,
        "is_complete": False,
        "total": sum_up([]),
        "runs": [],
    }


def _swap_all(
    arguments: argparse.Namespace, document: dict[str, Any], result: ResultFile, commit: str | None
) -> None:
    """Add the repeats that are missing; the result is written after each."""
    runs, num_ordered = document["runs"], document["settings"]["repeats"]
    begun_with = len(runs)
    document["is_complete"] = begun_with >= num_ordered
    if document["is_complete"]:
        return
    folder = Path(tempfile.mkdtemp(prefix="draft-swap-"))
    engine = {**CONFIG["engine"], "draft": arguments.before, "policy": arguments.policy}
    config = {**CONFIG, "engine": engine}
    with start_gateway(folder, config, ready_within_s=2 * READY_WITHIN_S) as gateway:
        print(f"log: {gateway.log}", flush=True)
        document["draft_before"] = drafts(gateway.admin_url)[0]
        for repeat in range(begun_with, num_ordered):
            if repeat > begun_with:  # back to where every repeat begins
                back = _swap(gateway, arguments.before)
                if back["state"] != "completed":
                    raise RuntimeError(f"the draft could not be swapped back: {back['reason']}")
            runs.append({"commit": commit, **_run(gateway, arguments, repeat)})
            document["is_complete"] = len(runs) >= num_ordered
            document["total"] = sum_up(runs)
            result.write(document)
            shown = {key: runs[-1][key] for key in ("before", "after", "counts")}
            print(json.dumps(shown), flush=True)


def sum_up(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The counts of all repeats, and why they have not passed."""
    failures = [failure for run in runs for failure in run["failures"]]
    return {
        "is_passed": bool(runs) and not failures,
        "failures": failures,
        "num_requests_during_swap": sum(run["counts"]["num_requests"] for run in runs),
        **{
            name: sum(run[name] for run in runs)
            for name in (
                "num_failed_requests", "num_compared", "num_changed_answers", "num_near_ties"
            )
        },
    }  # fmt: skip


def _run(gateway: GatewayProcess, arguments: argparse.Namespace, repeat: int) -> dict[str, Any]:
    """One swap, with a measurement on each side of it."""
    before = _measure(gateway, arguments, repeat)
    load = EngineLoad(
        MODEL,
        FAST_KINDS,
        arguments.streams,
        arguments.max_tokens,
        num_streams_during_restart=arguments.streams,
    )
    run = FaultRun(gateway, load, prompts(arguments.prompts), first_round=repeat)
    swaps: list[dict[str, Any]] = []

    async def swap(_: asyncio.Event) -> None:
        await asyncio.sleep(arguments.settle_s)
        start_s = time.monotonic()
        ended = await asyncio.to_thread(_swap, gateway, arguments.after)
        swaps.append({**ended, "duration_s": round(time.monotonic() - start_s, 1)})
        await asyncio.sleep(arguments.settle_s)

    async def swap_and_check() -> dict[str, Any]:
        requests = await run.run_during(swap)
        checked = await bundled_checks(gateway.url).check(requests)
        failed = [r for r in requests if r.transcript.ending is not Ending.COMPLETED]
        return {
            "counts": asdict(count(requests)),
            "num_failed_requests": len(failed),
            "errors": find_errors(requests),
            "num_compared": checked.num_compared,
            "num_sampled_judged": checked.num_sampled_judged,
            "num_changed_answers": len(checked.faults),
            "num_near_ties": len(checked.differences) - len(checked.faults),
            "num_tails_unjudged": checked.num_tails_unjudged,
            "differences": checked.differences,
            "longest_time_to_first_token_s": max(
                (r.transcript.first_token_s or r.transcript.end_s) - r.transcript.start_s
                for r in requests
            ),
            "longest_silence_s": max(r.transcript.longest_silence_s for r in requests),
        }

    swapped = asyncio.run(swap_and_check())
    after = _measure(gateway, arguments, repeat)
    failures = _failures(swaps[0], swapped, before, after)
    return {
        "failures": failures,
        "drafts": drafts(gateway.admin_url),
        "before": before,
        "after": after,
        "swap": swaps[0],
        **swapped,
    }


def _failures(
    swap: dict[str, Any], swapped: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> list[str]:
    """Why a run has not passed."""
    failures = list(swapped["errors"])
    if swap["state"] != "completed":
        failures.append(f"the swap {swap['state']}: {swap['reason']}")
    if swapped["num_failed_requests"]:
        failures.append(f"{swapped['num_failed_requests']} requests failed during the swap")
    if swapped["num_changed_answers"]:
        failures.append(f"{swapped['num_changed_answers']} answers changed")
    for name, figures in (("before", before), ("after", after)):
        if figures["num_errors"]:
            failures.append(f"{figures['num_errors']} requests failed {name} the swap")
    return failures


def _swap(gateway: GatewayProcess, draft: str) -> dict[str, Any]:
    return swap_draft(gateway.admin_url, draft, within_s=4 * READY_WITHIN_S)


def _measure(gateway: GatewayProcess, arguments: argparse.Namespace, repeat: int) -> dict[str, Any]:
    """Figures of the same requests on both sides of a swap."""
    config = RunConfig(
        url=gateway.url,
        admin_url=gateway.admin_url,
        workload=arguments.workload,
        temperature=0.0,
        seed=repeat,
        num_requests=arguments.num_requests,
        concurrency=arguments.concurrency,
        num_warmup=arguments.num_warmup,
        slo=_slo(arguments),
    )
    with terminal_progress() as progress:
        result = asyncio.run(measure(config, None, sys.argv, progress))
    summary, speculation = result.summary, result.speculation
    return {
        "num_requests": summary.num_requests,
        "num_errors": summary.num_errors,
        "goodput": None if summary.goodput is None else asdict(summary.goodput),
        "requests_per_s": summary.requests_per_s,
        "output_tokens_per_s": summary.output_tokens_per_s,
        "ttft_ms": asdict(summary.ttft_ms),
        "tpot_ms": asdict(summary.tpot_ms),
        "acceptance_rate": speculation.acceptance_rate,
        "acceptance_length": speculation.acceptance_length,
        "drafted_tokens": speculation.drafted_tokens,
        "accepted_tokens": speculation.accepted_tokens,
        "warnings": [asdict(warning) for warning in result.warnings],
    }


def _slo(arguments: argparse.Namespace) -> Slo:
    return Slo(ttft_ms=arguments.slo_ttft_ms, tpot_ms=arguments.slo_tpot_ms)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", default="ngram", help="the draft that the server starts with")
    parser.add_argument("--after", default="auto", help="auto: the bundled draft model")
    parser.add_argument("--policy", default="goodput")
    parser.add_argument("--repeats", type=int, default=2, help="swaps; one server for all")
    parser.add_argument("--streams", type=int, default=4, help="open all the time during the swap")
    parser.add_argument("--prompts", type=int, default=3, help="of the streams")
    parser.add_argument("--max-tokens", type=int, default=96, help="of the streams")
    parser.add_argument("--settle-s", type=float, default=3.0, help="load before and after a swap")
    parser.add_argument("--workload", default="mixed", help="of the measurements")
    parser.add_argument("--concurrency", type=int, default=4, help="of the measurements")
    parser.add_argument("--num-requests", type=int, default=120, help="of each measurement")
    parser.add_argument("--num-warmup", type=int, default=16, help="not counted")
    parser.add_argument("--slo-ttft-ms", type=float, default=1000.0)
    parser.add_argument("--slo-tpot-ms", type=float, default=50.0)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_resume(parser)
    add_allow_dirty(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
