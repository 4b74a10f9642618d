"""The simulator's command line; prints the results of `compare` and `fleet`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from paceline.foundation.shifting_trace.published import find_trace
from paceline.foundation.workloads.fields import WorkloadError
from paceline.runtime.policy_registry import policy_names
from paceline.testing.policy_simulator.evaluation.arms import GOVERNED_ARMS, governed_policy
from paceline.testing.policy_simulator.evaluation.compare import ArmResult, Comparison, compare_arms
from paceline.testing.policy_simulator.evaluation.fleet import FleetSummary, simulate_fleet
from paceline.testing.policy_simulator.evaluation.shifting_traces import phases_of
from paceline.testing.policy_simulator.evaluation.summary import PhaseSummary
from paceline.testing.policy_simulator.evaluation.traces import TRACE_NAMES, build_trace
from paceline.testing.policy_simulator.machines.machine import Disturbance
from paceline.testing.policy_simulator.machines.profiles import Profile, load_profile, profile_names
from paceline.testing.policy_simulator.traffic.phases import Phase

_EXAMPLES = """examples:
  python -m paceline.testing.policy_simulator
  python -m paceline.testing.policy_simulator --profile 72b-tp8-h100 --trace shifting --json r.json
  python -m paceline.testing.policy_simulator --profile cpu-twin --ngram --noise 0.1
  python -m paceline.testing.policy_simulator --policy latency
  python -m paceline.testing.policy_simulator --shifting-trace easy-hard-easy --policy latency
  python -m paceline.testing.policy_simulator --shifting-trace m.json --load-scale 8
  python -m paceline.testing.policy_simulator --profile 7b-h200 --trace prefills --prefill-chunk 16
  python -m paceline.testing.policy_simulator --slow-factor 2 --slow-from-s 100 --slow-for-s 60
  python -m paceline.testing.policy_simulator --profile 7b-h200 --trace bursts --replicas 1000
"""
_SCHEMA_VERSION = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; exit code 0, or 2 for wrong usage (argparse)."""
    parser = _parser()
    options = parser.parse_args(arguments)
    governed = tuple(dict.fromkeys((*GOVERNED_ARMS, *options.policy)))
    profile = load_profile(options.profile)
    if options.ngram:
        profile = replace(profile, machine=profile.machine.with_ngram())
    if options.prefill_chunk is not None:
        if options.prefill_chunk < 1:
            parser.error(f"--prefill-chunk is {options.prefill_chunk}; it must be at least 1")
        machine = profile.machine.with_prefill_chunks(options.prefill_chunk)
        profile = replace(profile, machine=machine)
    trace, source = _trace(parser, options, profile)
    disturbance = Disturbance(
        noise_fraction=options.noise,
        stall_chance=options.stall_chance,
        stall_s=options.stall_s,
        drift_fraction=options.drift,
        slow_factor=options.slow_factor,
        slow_from_s=options.slow_from_s,
        slow_for_s=options.slow_for_s,
    )
    result: dict[str, object] = {
        "schema_version": _SCHEMA_VERSION,
        "profile": profile.name,
        "drafter": profile.machine.drafter,
        **source,
        "prefill_chunk_tokens": options.prefill_chunk,
        "seed": options.seed,
        "disturbance": asdict(disturbance),
    }
    if options.replicas:
        fleets = {
            arm: simulate_fleet(
                profile.machine,
                trace,
                partial(governed_policy, arm, profile.machine, []),
                num_replicas=options.replicas,
                num_simulated=min(options.simulate, options.replicas),
                seed=options.seed,
                disturbance=disturbance,
            )
            for arm in ("off", *governed)
        }
        result["fleet"] = {arm: asdict(fleet) for arm, fleet in fleets.items()}
        print(_render_fleet(fleets))
    else:
        comparison = compare_arms(
            profile.machine,
            trace,
            seed=options.seed,
            disturbance=disturbance,
            governed=governed,
        )
        result |= asdict(comparison)
        print(_render_comparison(profile, str(source["trace"]), comparison, governed))
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def _trace(
    parser: argparse.ArgumentParser, options: argparse.Namespace, profile: Profile
) -> tuple[tuple[Phase, ...], dict[str, object]]:
    """The phases to run, and the keys of the result that identify them."""
    if options.shifting_trace is None:
        return build_trace(options.trace, profile), {"trace": options.trace}
    for flag, scale in (("--load-scale", options.load_scale), ("--time-scale", options.time_scale)):
        if not 0 < scale < float("inf"):
            parser.error(f"{flag} is {scale}; it must be a finite number above 0")
    try:
        trace = find_trace(options.shifting_trace)
        phases = phases_of(trace.scaled(load=options.load_scale, time=options.time_scale))
    except (WorkloadError, ValueError) as error:
        parser.error(str(error))
    identity = {"sha256": trace.sha256, "load_scale": options.load_scale}
    return phases, {
        "trace": trace.name,
        "shifting_trace": identity | {"time_scale": options.time_scale},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m paceline.testing.policy_simulator",
        description="Compare policies in a simulated engine with the best fixed draft length.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--profile", choices=profile_names(), default="cpu-twin")
    traffic = parser.add_mutually_exclusive_group()
    traffic.add_argument("--trace", choices=TRACE_NAMES, default="shifting")
    traffic.add_argument(
        "--shifting-trace",
        metavar="NAME|FILE",
        help="a shifting-acceptance trace (docs/reference/shifting-trace.md)",
    )
    parser.add_argument(
        "--load-scale", type=float, default=1.0, help="factor on the load of --shifting-trace"
    )
    parser.add_argument(
        "--time-scale", type=float, default=1.0, help="factor on its phases' durations"
    )
    parser.add_argument("--ngram", action="store_true", help="use an n-gram drafter, at no cost")
    parser.add_argument(
        "--policy",
        action="append",
        choices=policy_names(),
        default=[],
        metavar="NAME",
        help=f"a policy to run beside {' and '.join(GOVERNED_ARMS)}, with its default parameters",
    )
    parser.add_argument(
        "--prefill-chunk",
        type=int,
        metavar="TOKENS",
        help="most tokens of one prompt in a step, as vLLM's long_prefill_token_threshold",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--noise", type=float, default=0.03, help="relative standard deviation of the durations"
    )
    parser.add_argument(
        "--stall-chance", type=float, default=0.0, help="probability of a stall per step"
    )
    parser.add_argument("--stall-s", type=float, default=0.0, help="duration of a stall in seconds")
    parser.add_argument(
        "--drift", type=float, default=0.0, help="relative drift of the durations over ten minutes"
    )
    parser.add_argument(
        "--slow-factor",
        type=float,
        default=1.0,
        help="how many times as long every step takes during the slow time",
    )
    parser.add_argument(
        "--slow-from-s", type=float, default=0.0, help="start of the slow time in seconds"
    )
    parser.add_argument(
        "--slow-for-s", type=float, default=0.0, help="duration of the slow time in seconds"
    )
    parser.add_argument(
        "--replicas", type=int, default=0, help="size of a fleet to simulate instead of one engine"
    )
    parser.add_argument(
        "--simulate", type=int, default=8, help="number of replicas to simulate of the fleet"
    )
    parser.add_argument("--json", metavar="FILE", help="write the whole result to FILE")
    return parser


def _render_comparison(
    profile: Profile, trace: str, comparison: Comparison, governed: Sequence[str]
) -> str:
    lines = [
        f"{profile.name}, {profile.description}; trace {trace}",
        f"best single length {comparison.best_single.summary.arm} by tokens, "
        f"{comparison.best_held_arm} by phase; table {comparison.table}",
        "",
        f"{'arm':10}{'tokens/s':>10}{'of oracle':>10}{'of single':>10}{'by phase':>10}{'worst':>8}"
        f"{'adapted':>9}{'P99 ms':>8}  worst phase",
    ]
    single = comparison.best_single
    lines += [_render_arm(arm, single) for arm in comparison.arms]
    for name in governed:
        lines += [
            "",
            f"{name:26}{'tokens/s':>10}{'steady':>8}{'best K':>7}{'its K':>7}{'adapted':>9}"
            f"{'off':>7}{'explore':>8}{'loss':>7}{'switch':>7}",
        ]
        lines += [_render_phase(phase) for phase in comparison.arm(name).summary.phases]
    return "\n".join(lines)


def _render_arm(arm: ArmResult, single: ArmResult) -> str:
    summary = arm.summary
    return (
        f"{summary.arm:10}{summary.tokens_per_s:10.1f}{arm.fraction_of_oracle:10.1%}"
        f"{arm.fraction_of_oracle / single.fraction_of_oracle:10.1%}"
        f"{arm.mean_phase_fraction:10.1%}{arm.worst_phase_fraction:8.1%}"
        f"{_or_never(arm.slowest_to_adapt):>9}{_in_ms(summary.inter_chunk_p99_s):>8}"
        f"  {arm.worst_phase}"
    )


def _render_phase(phase: PhaseSummary) -> str:
    steady = "-" if phase.steady_fraction is None else f"{phase.steady_fraction:.1%}"
    best = "-" if phase.best_length is None else str(phase.best_length)
    common = "-" if phase.common_length is None else str(phase.common_length)
    return (
        f"  {phase.name:24}{phase.tokens_per_s:10.1f}{steady:>8}{best:>7}{common:>7}"
        f"{_or_never(phase.steps_to_adapt):>9}{phase.off_fraction:7.1%}"
        f"{phase.exploring_fraction:8.2%}{phase.exploring_loss_fraction:7.2%}"
        f"{phase.switching_fraction:7.2%}"
    )


def _render_fleet(fleets: dict[str, FleetSummary]) -> str:
    lines = [f"{'arm':10}{'fleet tokens/s':>16}{'+-':>10}{'slowest':>9}{'P99 ms':>8}"]
    lines += [
        f"{arm:10}{fleet.tokens_per_s:16.0f}{fleet.tokens_per_s_margin:10.0f}"
        f"{fleet.slowest_replica_fraction:9.1%}{_in_ms(fleet.inter_chunk_p99_s):>8}"
        for arm, fleet in fleets.items()
    ]
    return "\n".join(lines)


def _or_never(steps: int | None) -> str:
    return "never" if steps is None else str(steps)


def _in_ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.1f}"
