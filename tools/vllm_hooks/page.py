"""How is docs/vllm-hooks.md written? From the register and the records, so it cannot differ.

    PYTHONPATH=tools python -m vllm_hooks.page tools/vllm_hooks/records > docs/vllm-hooks.md

What a release means for Paceline cannot be computed: `_NOTES` says what reading its source showed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.engine.compat.hook import VLLM_REPOSITORY, VllmHook
from paceline.engine.compat.register import REGISTER
from vllm_hooks.record import HookRecord, load_records

RUN_VERSION = "0.32.0"
"""The release that Paceline is made for, installs, and runs its tests on."""

_HEAD = """\
# Places in vLLM that Paceline relies on

Generated from `src/paceline/engine/hook_register.py` and from records of what each vLLM release has
there (`tools/vllm_hooks/records`), by
`PYTHONPATH=tools python -m vllm_hooks.page tools/vllm_hooks/records`.

Paceline extends vLLM through its plugin entry point and `--scheduler-cls`. Where these do not
reach, it wraps or reads one of the places below, called hooks. The scheduler and the repairs check
theirs when they start; where one does not fit, the part that needs it steps aside with a line in
the log, and vLLM serves on as if that part were not there.
"""

_SEAMS_HEAD = f"""\
## Seams

`same`: the code is that of {RUN_VERSION}. `fits`: the code differs; its parameters, or the names
that count in it, do not. A name of a place leads to the change or issue that the hook is about, or
to its file. `worker` hooks have no part of their own: the tests check them.
"""

_PARTS = {
    "steering": (
        "chooses the draft length of every step",
        "vLLM drafts to its own static length",
    ),
    "sampler_check": (
        "CPU: asks the workers whether their sampler is right",
        "sampled requests are served without speculation",
    ),
    "sampler_repair": (
        "CPU: mends the rejection sampler",
        "the check finds it wrong, so the same",
    ),
    "top_k_repair": (
        "CPU: lets top-k pass a step without drafts",
        "the check finds it wrong, so the same",
    ),
    "generator_repair": (
        "CPU: a seeded prompt may be prefilled in pieces",
        "such a prompt ends the engine, as in vLLM alone",
    ),
    "resting_draft": (
        "CPU: the draft model rests at draft length 0",
        "it runs once per step, as in vLLM alone",
    ),
    "plain_sampling": (
        "CPU: samples a step without drafts as without speculation",
        "it takes the rejection sampler, as in vLLM alone",
    ),
    "replay_scoring": (
        "CPU: judges the resting draft model on what the target has made",
        "the governor drafts now and then to see",
    ),
    "first_token": (
        "CPU: at draft length 0, judges the first token of a drafter that keeps up",
        "the governor drafts now and then to see",
    ),
    "v2_draft_length": (
        "Model Runner V2: a draft model and n-gram lookup heed the draft length",
        "they draft the maximum, and vLLM cuts off the surplus",
    ),
    "pacing": (
        "takes prefills in pieces that keep the time between two tokens",
        "prefills are as long as vLLM's own limits let them be",
    ),
}
"""What each part does, and what happens without it."""

_ALSO_NEEDED = {
    "top_k_repair": ("kernels_read_late",),
    "resting_draft": ("platform_worker_hook",),
    "plain_sampling": ("platform_worker_hook",),
    "replay_scoring": (
        "platform_worker_hook",
        "propose_draft_token_ids",
        "draft_metadata",
        "draft_inputs",
        "draft_slots",
        "draft_attributes",
        "common_attention_metadata",
    ),
    "first_token": ("platform_worker_hook",),
}
"""Seams listed under another part."""

_NOTES = {
    "0.26.0": f"""\
Not supported: Paceline steps aside as a whole, and vLLM runs as it is, with its static draft
length. `Request` does not count stale output yet, so the scheduler does not steer. CPU workers bind
their functions when a module is loaded and call no hook, so none can be replaced in time: sampled
requests under speculation on a CPU come out wrong, as in vLLM alone ([#55005]). Model Runner V2
does not read the length: its drafters always draft to the maximum, and only under asynchronous
scheduling is the surplus left unverified. Model Runner V1 hands the length to the same drafters as
in 0.32.0.

[#55005]: {VLLM_REPOSITORY}/issues/55005
""",
    "0.32.0": """\
Supported: installed by the lock file; the tests run it, on a CPU.
""",
    "0.33.0": """\
Fits by its source; not run: no CPU build of it is published. Each function that Paceline wraps or
replaces in the workers is the same as in 0.32.0, but for `propose_draft_token_ids`, which lost its
branch for `medusa`. In the scheduler, `schedule` and `update_from_output` changed within; what they
call, and in which order, did not. What is new and matters:

- `rejection_sample_method` may be `fly`, which changes the output; `AdaptiveScheduler` refuses it.
- Model Runner V2 leaves out drafting in a step whose drafts nobody could use (`skip_drafts`: only
  pieces of prompts, and requests at their last token). The governor counts such a step as drafted.
- `dflash` drafts nothing at length 0 under Model Runner V2; other lengths are cut, as before.
- The methods `medusa` and `mlp_speculator` are gone.
""",
}


def render_page(records: Sequence[HookRecord]) -> str:
    """The whole page, in Markdown. ValueError for a record older than the register."""
    verdicts = {record.version: record.verdicts() for record in records}
    [run] = [record for record in records if record.version == RUN_VERSION]
    versions = [record.version for record in records]
    lines = [_HEAD, "## Parts\n", _row("part", "what it does", "without it", *versions)]
    lines.append(_row(*["---"] * (3 + len(records))))
    for part, (purpose, without) in _PARTS.items():
        cells = (_part_verdict(part, verdicts[version]) for version in versions)
        lines.append(_row(f"`{part}`", purpose, without, *cells))
    lines.append("\n## Releases\n")
    for record in records:
        lines += [f"### {record.version}\n", _summary(record, run) + "\n", _NOTES[record.version]]
    lines.append(_SEAMS_HEAD)
    for part in dict.fromkeys(hook.part for hook in REGISTER):
        lines.append(f"### `{part}`\n")
        lines.append(_row("hook", "place", "purpose", "can go when", *versions))
        lines.append(_row(*["---"] * (4 + len(records))))
        hooks = (hook for hook in REGISTER if hook.part == part)
        lines += [_seam_row(hook, records, run, verdicts) for hook in hooks]
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
    return f"**steps aside**: {', '.join(f'`{name}`' for name in unfit)}" if unfit else "fits"


def _seam_row(
    hook: VllmHook,
    records: Sequence[HookRecord],
    run: HookRecord,
    verdicts: dict[str, dict[str, str]],
) -> str:
    module, _, path = hook.target.partition(":")
    place = f"[`{path}`]({hook.upstream}) in `{module.removeprefix('vllm.')}`"
    cells = (
        _seam_verdict(hook, verdicts[record.version][hook.name], _is_same(hook, record, run))
        for record in records
    )
    return _row(f"`{hook.name}`", place, hook.purpose, hook.remove_when, *cells)


def _seam_verdict(hook: VllmHook, verdict: str, is_same: bool) -> str:
    if verdict == "ok":
        return "same" if is_same else "fits"
    reason = verdict.removeprefix(f"{hook.target} ").partition(":")[0]
    return f"**no**: {reason}"


def _is_same(hook: VllmHook, record: HookRecord, run: HookRecord) -> bool:
    digest = record.digests[hook.name]
    return digest is not None and digest == run.digests[hook.name]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    [folder] = sys.argv[1:]
    sys.stdout.write(render_page(load_records(Path(folder))))
