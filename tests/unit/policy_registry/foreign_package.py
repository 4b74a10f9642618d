"""A package as pip would install it: a module and its *.dist-info in a folder on sys.path."""

from __future__ import annotations

from pathlib import Path

MODULE = '''
"""A policy of a package that knows Paceline by its public surface only."""

from paceline import DraftPlan, EngineLoad, Parameter, PolicyDefinition, StepSample


class SteppedPolicy:
    """Lengths 0 to `highest` in turn, each for `hold` steps."""

    def __init__(self, max_draft_length: int, *, hold: int, highest: int | None = None) -> None:
        self._hold = hold
        self._highest = max_draft_length if highest is None else highest
        self._steps = 0

    def observe(self, sample: StepSample) -> None:
        """Ignore the sample."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        length = self._steps // self._hold % (self._highest + 1)
        self._steps += 1
        return DraftPlan(load.longest_allowed(length), f"stepped: {length}")


POLICY = PolicyDefinition(
    name="stepped",
    summary="Every length in turn.",
    create=SteppedPolicy,
    parameters=(
        Parameter("hold", int, "Steps at each length.", default=2, lowest=1),
        Parameter("highest", int, "The longest; by default the ceiling.", lowest=0, highest=64),
    ),
)


class PlainPolicy(SteppedPolicy):
    """Every length in turn, one step each.

    Registered as a class, without parameters.
    """

    def __init__(self, max_draft_length: int) -> None:
        super().__init__(max_draft_length, hold=1)
'''

ENTRY_POINTS = """[paceline.policies]
stepped = stepped_policy:POLICY
plain = stepped_policy:PlainPolicy
"""
BROKEN_ENTRY_POINTS = """[paceline.policies]
broken = no_such_module:POLICY
renamed = stepped_policy:POLICY
number = stepped_policy:__doc__
goodput = stepped_policy:POLICY
"""


def install(folder: Path, entry_points: str = ENTRY_POINTS, name: str = "stepped-policy") -> None:
    """Put the package into `folder`, which belongs on sys.path or PYTHONPATH."""
    (folder / "stepped_policy.py").write_text(MODULE)
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
