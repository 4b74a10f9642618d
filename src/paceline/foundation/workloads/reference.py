"""Print docs/workloads.md: `python -m paceline.foundation.workloads.reference`."""

from __future__ import annotations

from paceline.foundation.workloads.registry import load_workloads

_HEAD = """\
<!-- Printed by `python -m paceline.foundation.workloads.reference`. Do not edit. -->

# Workloads

`paceline bench run --workload NAME` and the scripts in `benchmarks/` accept these names. Each
workload is one file in `src/paceline/foundation/workloads/builtin/`.

`temperature` applies unless `--temperature` sets another. `simulated as` is the policy simulator's
traffic class for the same kind of text.

| name | requests | temperature | simulated as |
|---|---|---|---|
"""

_TAIL = """
## Add a workload

1. Add `src/paceline/foundation/workloads/builtin/NAME.py`, which assigns a `Workload`
   (`src/paceline/foundation/workloads/workload.py` is the contract) to `WORKLOAD`. A subset of the
   bundled prompts is a `HeldoutWorkload`; any object with the same attributes works.
2. Run `pytest tests/unit/workloads`: the contract checks find the new file. Add a test of anything
   that is special about it.
3. Regenerate this page with the command in its first line.
"""


def render_reference() -> str:
    """The whole page."""
    rows = "".join(
        f"| `{workload.name}` | {workload.description} | {workload.temperature:g} | "
        f"{workload.text_kind or '-'} |\n"
        for workload in load_workloads().values()
    )
    return _HEAD + rows + _TAIL


if __name__ == "__main__":
    print(render_reference(), end="")
