"""Render docs/vllm-hooks.md from the hook register and the records of vLLM releases.

Run it from the repository's root:

    PYTHONPATH=tools python -m vllm_hooks.page tools/vllm_hooks/records > docs/vllm-hooks.md

What a release means for Paceline cannot be computed: `_NOTES` has what reading its source showed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.foundation.compatibility.vllm_releases import INSTALLED, SUPPORTED
from paceline.runtime.engine.compat.hook import VLLM_REPOSITORY, VllmHook
from paceline.runtime.engine.compat.register import REGISTER
from vllm_hooks.record import HookRecord, load_records

_HEAD = """\
# Hooks into vLLM

Generated from the register (`src/paceline/runtime/engine/compat/register*.py`) and from records of
what each vLLM release has at these places (`tools/vllm_hooks/records`), by `PYTHONPATH=tools python
-m vllm_hooks.page tools/vllm_hooks/records`.

Paceline extends vLLM through its plugin entry point and `--scheduler-cls`. Where these do not
suffice, it wraps, replaces or reads one of the functions and classes below, called hooks. Each part
checks its hooks when it starts. If one does not fit, the part logs a line and stays off, and vLLM
serves as if that part did not exist.
"""

_SUPPORTED = f"""\
Supported are {" and ".join(SUPPORTED)} (`src/paceline/foundation/compatibility/vllm_releases.py`).
CPUs get {INSTALLED} (`paceline[cpu]`), which the tests run; GPUs get either (`paceline[cuda]`).
"""

_HOOKS_HEAD = f"""\
## Hooks

`same`: the code equals that of {INSTALLED}. `fits`: the code differs, but its parameters, or the
names that the register expects in it, do not. Each place links to the change or issue that the hook
concerns, or to its file. The `worker` hooks belong to no part: only the tests check them.
"""

_PARTS = {
    "governor": (
        "chooses the draft length of every step",
        "vLLM uses its static draft length",
    ),
    "captured_lengths": (
        "GPU: restricts the draft length to lengths that have full CUDA graphs",
        "every length is allowed; those without graphs are slower",
    ),
    "sampler_check": (
        "CPU: checks each worker's sampler on known answers",
        "sampled requests are served without speculation",
    ),
    "cpu_sampler": (
        "CPU: corrects the rejection sampler",
        "the check fails, so sampled requests are served without speculation",
    ),
    "cpu_top_k": (
        "CPU: corrects top-k for steps without drafts",
        "the check fails, so sampled requests are served without speculation",
    ),
    "cpu_draws": (
        "CPU: draws tokens by one random number per row",
        "the draws take up to a seventh of a step, as in vLLM alone",
    ),
    "cpu_top_p": (
        "CPU: finds a top-p nucleus among the likeliest tokens",
        "the vocabulary is sorted for every row, as in vLLM alone",
    ),
    "short_warm_up": (
        "CPU: compiles with a pass of few tokens",
        "a start takes some seconds longer, as in vLLM alone",
    ),
    "warm_core": (
        "CPU: forks the engine core from a process that imports vLLM beside the API server",
        "the engine core imports vLLM after the API server, and a start takes longer",
    ),
    "seeded_generator": (
        "CPU: lets a prompt with a seed be prefilled in pieces",
        "such a prompt crashes the engine, as in vLLM alone",
    ),
    "thinking_budget": (
        "CPU: forces the end of a thinking section at the right place of the right request",
        "a thinking budget may end another request's section, as in vLLM alone",
    ),
    "min_tokens": (
        "CPU: lets a request end at its first permitted token under speculation",
        "it may end some tokens later, as in vLLM alone",
    ),
    "undrafted_requests": (
        "CPU: serves requests with `min_p` or `logit_bias` without drafts",
        "they are refused under speculation, as in vLLM alone",
    ),
    "rust_front_end": (
        "refuses vLLM's Rust front end, which loads no plugins",
        "it serves without the checks and reports of Paceline's front end",
    ),
    "resting_draft": (
        "CPU: skips a draft model or an EAGLE-3 head at draft length 0",
        "it runs once per step, as in vLLM alone",
    ),
    "plain_sampling": (
        "CPU: samples a step without drafts with the plain sampler",
        "the step uses the rejection sampler, as in vLLM alone",
    ),
    "early_stop": (
        "ends drafts when no further pass of the draft model is worth its time",
        "each step drafts to the planned length, and all drafts are verified",
    ),
    "deferred_drafts": (
        "CPU: hands over the tokens of a step before its drafts are made",
        "tokens wait for the draft model, as in vLLM alone",
    ),
    "v2_draft_length": (
        "Model Runner V2: makes the draft model and n-gram lookup follow the draft length",
        "they draft the maximum, and vLLM masks the surplus",
    ),
    "trimmed_drafts": (
        "Model Runner V2: reports which drafts adaptive verification left out",
        "`enable_adaptive_verification` is refused",
    ),
    "prefill_pacing": (
        "splits prefills so that the time between two tokens stays below the objective",
        "prefills are limited only by vLLM's own settings",
    ),
}
"""What each part does, and what vLLM does without it."""

_ALSO_NEEDED = {
    "cpu_top_k": ("kernels_read_late",),
    "thinking_budget": ("platform_worker_hook",),
    "min_tokens": ("platform_worker_hook",),
    "undrafted_requests": ("platform_worker_hook", "sample", "spec_decode_metadata"),
    "resting_draft": ("platform_worker_hook",),
    "plain_sampling": ("platform_worker_hook",),
    "early_stop": ("platform_worker_hook",),
    "deferred_drafts": ("platform_worker_hook",),
}
"""Hooks that a part needs and that are listed under another part."""

_NOTES = {
    "0.26.0": f"""\
Not supported: Paceline is off as a whole, and vLLM runs unchanged with its static draft length.
`Request` does not count stale output yet, so the governor is off. CPU workers bind their functions
when a module is loaded and call no hook, so none can be replaced in time: on a CPU, sampled
requests under speculation have the wrong distribution, as in vLLM alone ([#55005]). Model Runner V2
does not read the length: its drafters always draft the maximum, and only asynchronous scheduling
leaves the surplus unverified. It has no n-gram lookup, and a table of draft lengths stops its start
with EAGLE and MTP ([#48494]). Model Runner V1 passes the length to the same drafters as in 0.32.0.

[#48494]: {VLLM_REPOSITORY}/issues/48494
[#55005]: {VLLM_REPOSITORY}/issues/55005
""",
    "0.32.0": """\
Installed by the lock file; the tests run it, on a CPU.
""",
    "0.33.0": """\
Fits by its source; not run, because no CPU build of it is published. Each function that Paceline
wraps or replaces in the workers equals that of 0.32.0, except `propose_draft_token_ids`, which lost
its branch for `medusa`, `RejectionSampler.forward`, which also passes the settings of `fly`, and
`sample_tokens`, which collects transferred KV blocks earlier. In the scheduler, the bodies of
`schedule` and `update_from_output` changed; what they call, and in which order, did not. Relevant
changes:

- `rejection_sample_method` may be `fly`, which changes the output; `AdaptiveScheduler` refuses it.
- Model Runner V2 skips drafting in a step whose drafts could not be used (`skip_drafts`: only
  pieces of prompts, and requests at their last token). The governor asks for none in such a step.
- `prefill_schedule_interval` also holds without data parallelism; beside it, prompts are not paced.
- Model Runner V1 drops a table of draft lengths for `suffix` and `custom_class`, for which
  `AdaptiveScheduler` needs none.
- Under Model Runner V2, a draft model with a shorter context than the target lowers
  `max_model_len`, with a warning.
- `dflash` drafts nothing at length 0 under Model Runner V2; other lengths are masked, as before.
- The methods `medusa` and `mlp_speculator` were removed.
""",
}


def render_page(records: Sequence[HookRecord]) -> str:
    """Return the page in Markdown. ValueError for a record that is older than the register."""
    verdicts = {record.version: record.verdicts() for record in records}
    [run] = [record for record in records if record.version == INSTALLED]
    versions = [record.version for record in records]
    lines = [_HEAD, "## Parts\n", _row("part", "what it does", "without it", *versions)]
    lines.append(_row(*["---"] * (3 + len(records))))
    for part, (purpose, without) in _PARTS.items():
        cells = (_part_verdict(part, verdicts[version]) for version in versions)
        lines.append(_row(f"`{part}`", purpose, without, *cells))
    lines.append("\n## Releases\n")
    lines.append(_SUPPORTED)
    for record in records:
        lines += [f"### {record.version}\n", _summary(record, run) + "\n", _NOTES[record.version]]
    lines.append(_HOOKS_HEAD)
    for part in dict.fromkeys(hook.part for hook in REGISTER):
        lines.append(f"### `{part}`\n")
        lines.append(_row("hook", "place", "purpose", "can be removed when", *versions))
        lines.append(_row(*["---"] * (4 + len(records))))
        hooks = (hook for hook in REGISTER if hook.part == part)
        lines += [_hook_row(hook, records, run, verdicts) for hook in hooks]
        lines.append("")
    return "\n".join(lines)


def _summary(record: HookRecord, run: HookRecord) -> str:
    verdicts = record.verdicts().values()
    num_fitting = sum(verdict == "ok" for verdict in verdicts)
    text = f"Read: {record.distribution}. {num_fitting} of {len(verdicts)} hooks fit"
    if record is not run:
        num_same = sum(_is_same(hook, record, run) for hook in REGISTER)
        text += f", {num_same} with the same code as in {run.version}"
    return text + "."


def _part_verdict(part: str, verdicts: dict[str, str]) -> str:
    needed = [hook.name for hook in REGISTER if hook.part == part]
    unfit = [name for name in (*needed, *_ALSO_NEEDED.get(part, ())) if verdicts[name] != "ok"]
    return f"**off**: {', '.join(f'`{name}`' for name in unfit)}" if unfit else "fits"


def _hook_row(
    hook: VllmHook,
    records: Sequence[HookRecord],
    run: HookRecord,
    verdicts: dict[str, dict[str, str]],
) -> str:
    module, _, path = hook.target.partition(":")
    place = f"[`{path}`]({hook.upstream}) in `{module.removeprefix('vllm.')}`"
    cells = (
        _hook_verdict(hook, verdicts[record.version][hook.name], _is_same(hook, record, run))
        for record in records
    )
    return _row(f"`{hook.name}`", place, hook.purpose, hook.remove_when, *cells)


def _hook_verdict(hook: VllmHook, verdict: str, is_same: bool) -> str:
    if verdict == "ok":
        return "same" if is_same else "fits"
    reason = verdict.removeprefix(f"{hook.target} ").partition(":")[0]
    return f"**no**: {reason}"


def _is_same(hook: VllmHook, record: HookRecord, run: HookRecord) -> bool:
    digest = record.digests[hook.name]
    return digest is not None and digest == run.digests[hook.name]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="PYTHONPATH=tools python -m vllm_hooks.page",
        description="Render docs/vllm-hooks.md to standard output.",
    )
    parser.add_argument("folder", type=Path, help="folder of the records")
    sys.stdout.write(render_page(load_records(parser.parse_args().folder)))


if __name__ == "__main__":
    main()
