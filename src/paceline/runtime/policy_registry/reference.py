"""The page docs/policies.md, generated from the declarations of the built-in policies.

`python -m paceline.runtime.policy_registry.reference > docs/policies.md` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from paceline.runtime.governor.policies.builtin import BUILTIN_POLICIES, DEFAULT_POLICY
from paceline.runtime.governor.policy_definition import Parameter

_HEAD = """\
# Policies

A policy chooses the draft length of every step. This page is generated from the declarations in
`src/paceline/runtime/governor/policies/`.

Name a policy

- for `paceline serve`: with `--policy NAME`, or as `engine.policy` and `engine.policy_parameters`
  in `paceline.yaml`
- for `vllm serve`: with `--additional-config '{"paceline": {"policy": "NAME",
  "policy_parameters": {…}}}'`
- at run time: with a PATCH of `/admin/governor` on the admin port,
  `{"policy": "NAME", "policy_parameters": {…}}`

`draft_length` and `schedule` can also be set next to `policy`, outside `policy_parameters`. Unknown
names and disallowed values are refused; the error lists the allowed ones.
"""

_TAIL = """\
## A policy of your own

A policy is a class with two methods: `observe` learns from a finished step, and `plan` chooses the
next draft length. The docstrings of `paceline.Policy` are its contract. The policy works with the
values `paceline.StepSample`, `paceline.EngineLoad` and `paceline.DraftPlan`.

```python
# halve.py
from paceline import DraftPlan, EngineLoad, Parameter, PolicyDefinition, StepSample


class HalvePolicy:
    \"\"\"A constant share of the ceiling.\"\"\"

    def __init__(self, max_draft_length: int, *, share: float) -> None:
        self._share = share

    def observe(self, sample: StepSample) -> None:
        \"\"\"Ignore the sample.\"\"\"

    def plan(self, load: EngineLoad) -> DraftPlan:
        length = load.longest_allowed(int(self._share * load.max_draft_length))
        return DraftPlan(length, f"{self._share:.0%} of the ceiling")


POLICY = PolicyDefinition(
    name="halve",
    summary="A share of the ceiling.",
    create=HalvePolicy,
    parameters=(
        Parameter("share", float, "Share of the ceiling.", default=0.5, lowest=0, highest=1),
    ),
)
```

`create` is called with the engine's ceiling and with each parameter by name. A definition with
`takes_max_step_s=True` is also given `max_step_s`, the objective for the time of one step. One with
`takes_cost_table=True` is given `cost_table`: durations measured at the engine's start, or None.

Register it by an entry point in the package's `pyproject.toml`, under the policy's name:

```toml
[project.entry-points."paceline.policies"]
halve = "halve:POLICY"
```

Once the package is installed in Paceline's environment, `paceline serve --policy halve` and
`vllm serve` accept the policy. A policy that cannot be imported is logged as an error and left out;
the other policies keep working. If a policy raises an error while serving, the engine uses its
static draft length for that step and counts the error.

Check the policy against the contract in a test; the error names each promise that it breaks and
what happened instead:

```python
import paceline


def test_contract() -> None:
    paceline.check_policy("halve", share=0.25)
```

A policy of Paceline itself is one module in `src/paceline/runtime/governor/policies/` with a
module-level `PolicyDefinition`, and its test. Nothing else lists it. Regenerate this page with
`python -m paceline.runtime.policy_registry.reference > docs/policies.md`.
"""


def render_page() -> str:
    """The whole page, in Markdown."""
    return "\n".join([_HEAD, *_render_policies(), _TAIL])


def _render_policies() -> Iterator[str]:
    yield "## Built-in policies\n"
    yield "| policy | draft length |\n|---|---|"
    for name, definition in BUILTIN_POLICIES.items():
        default = " (default)" if name == DEFAULT_POLICY else ""
        objective = (
            " Keeps to `slo.time_per_output_token_ms`." if definition.takes_max_step_s else ""
        )
        yield f"| `{name}`{default} | {definition.summary}{objective} |"
    yield "\n| policy | parameter | allowed | default | meaning |\n|---|---|---|---|---|"
    for name, definition in BUILTIN_POLICIES.items():
        for parameter in definition.parameters:
            yield _render_parameter(name, parameter)
    yield ""


def _render_parameter(policy: str, parameter: Parameter) -> str:
    if parameter.is_required:
        default = "required"
    else:
        default = "" if parameter.default is None else f"`{parameter.default}`"
    return (
        f"| `{policy}` | `{parameter.name}` | {parameter.allowed} | {default} | "
        f"{parameter.description} |"
    )


if __name__ == "__main__":
    sys.stdout.write(render_page())
