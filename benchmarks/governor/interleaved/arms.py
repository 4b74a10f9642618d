"""The compared arms: what each engine runs, and from which checkout.

    KIND[:KEY=VALUE,…][@PATH]…[#LABEL]

KIND is `none` (vLLM without speculation), `K=3` (a fixed length, 0 is off) or the name of a policy.
`KEY=VALUE` are parameters of the policy, in JSON or plain text. Each PATH is put first on the
child's PYTHONPATH: another checkout of this repository (its `src`), or a folder with an installed
package of policies. A LABEL distinguishes two arms that are otherwise equal: `none#again`.

The rules of other engines, to compare with: SGLang's is `sglang-ema@benchmarks/governor/peers`, and
vLLM's length table is `schedule:schedule=[[1,4,6],[5,16,2],[17,64,0]]`, with a table that was tuned
on this machine. `goodput-confident@benchmarks/governor/peers` is `goodput` with
confidences in steps of any length.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NONE = "none"
_SPEC = re.compile(
    r"(?P<kind>[^:@#]+)(:(?P<parameters>[^@#]+))?(?P<paths>(@[^@#]+)*)(#(?P<label>.+))?"
)


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of choosing the draft length, in an engine of its own."""

    kind: str
    parameters: tuple[tuple[str, Any], ...] = ()
    paths: tuple[Path, ...] = ()
    label: str = ""

    @property
    def name(self) -> str:
        """The name in results; paths are shortened to their last part."""
        given = ",".join(f"{key}={value}" for key, value in self.parameters)
        return (
            self.kind
            + (f":{given}" if given else "")
            + "".join(f"@{path.name}" for path in self.paths)
            + (f"#{self.label}" if self.label else "")
        )

    @property
    def fixed_length(self) -> int | None:
        """The length of a fixed arm; None for `none` and for policies."""
        return int(self.kind[2:]) if self.kind.startswith("K=") else None

    @property
    def settings(self) -> dict[str, Any] | None:
        """The plugin's settings; None for an engine without speculation."""
        if self.kind == NONE:
            return None
        length = self.fixed_length
        if length is not None:
            return {"policy": "fixed", "draft_length": length}
        return {"policy": self.kind, "policy_parameters": dict(self.parameters)}

    def python_path(self, own_source: Path) -> list[str]:
        """Folders for PYTHONPATH, `own_source` last."""
        checkouts = [path / "src" for path in self.paths]
        found = [
            source if (source / "paceline").is_dir() else path
            for path, source in zip(self.paths, checkouts, strict=True)
        ]
        return [str(path) for path in (*found, own_source)]


def parse_arm(spec: str, *, max_draft_length: int) -> Arm:
    """Parse one arm; ValueError that says what is wrong."""
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ValueError(
            f"the arm is {spec!r}; it must be KIND[:KEY=VALUE,…][@PATH][#LABEL], "
            "as in none, none#again, K=2, goodput"
        )
    paths = tuple(Path(path).resolve() for path in match["paths"].split("@") if path)
    for path in paths:
        if not path.is_dir():
            raise ValueError(f"the arm {spec!r} has the path {path}; it must be a folder")
    arm = Arm(match["kind"], _parameters(spec, match["parameters"]), paths, match["label"] or "")
    if arm.kind.startswith("K="):
        digits = arm.kind[2:]
        if not digits.isdecimal() or int(digits) > max_draft_length:
            raise ValueError(
                f"the arm {spec!r} has the length {digits!r}; it must be a whole number from 0 to "
                f"{max_draft_length}, the value of --max-draft-length"
            )
    if arm.parameters and (arm.kind == NONE or arm.fixed_length is not None):
        raise ValueError(f"the arm {spec!r} has parameters; only policies take them")
    return arm


def parse_arms(specs: list[str], *, max_draft_length: int) -> tuple[Arm, ...]:
    """Parse all arms; ValueError when two have the same name."""
    arms = tuple(parse_arm(spec, max_draft_length=max_draft_length) for spec in specs)
    names = [arm.name for arm in arms]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two arms are called {name!r}; add a label, as in {name}#again")
    return arms


def _parameters(spec: str, text: str | None) -> tuple[tuple[str, Any], ...]:
    pairs = []
    # The commas of a list, as in `schedule=[[1,4,6],[5,64,2]]`, are followed by no KEY=.
    for part in re.split(r",(?=\w*=)", text) if text else ():
        key, equals, value = part.partition("=")
        parsed: Any = value
        with suppress(ValueError):
            parsed = json.loads(value)
        if not equals or (parsed is value and "," in value):
            raise ValueError(f"the arm {spec!r} has the parameter {part!r}; it must be KEY=VALUE")
        pairs.append((key, parsed))
    return tuple(pairs)
