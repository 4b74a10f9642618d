"""Keep the outcomes of mutants between runs.

A kill is kept as long as the module is unchanged: tests that are added cannot undo it. A survivor
is kept as long as its tests are unchanged, too. After a test was removed or weakened, run with
`--fresh`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks.mutation.targets import ROOT


@dataclass(slots=True)
class Known:
    """The outcomes of one module's mutants (`trial.Trial`), by their source."""

    source: str
    """Digest of the unchanged module."""
    tests: str
    """Digest of its tests."""
    outcomes: dict[str, str]

    @classmethod
    def read(cls, path: Path, source: str, tests: Sequence[str]) -> Self:
        """Return what is still valid of the file at `path`; nothing if there is none."""
        contents = "".join((ROOT / test).read_text() for test in tests)
        known = cls(_digest(source), _digest(contents), {})
        if path.is_file():
            earlier = json.loads(path.read_text())
            if earlier["source"] == known.source:
                is_same_test = earlier["tests"] == known.tests
                known.outcomes = {
                    mutant: outcome
                    for mutant, outcome in earlier["outcomes"].items()
                    if is_same_test or outcome != "passed"
                }
        return known

    def write(self, path: Path) -> None:
        """Write the outcomes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {"source": self.source, "tests": self.tests, "outcomes": self.outcomes}
        path.write_text(json.dumps(document))

    def __contains__(self, mutant: str) -> bool:
        return _digest(mutant) in self.outcomes

    def __getitem__(self, mutant: str) -> str:
        return self.outcomes[_digest(mutant)]

    def __setitem__(self, mutant: str, outcome: str) -> None:
        self.outcomes[_digest(mutant)] = outcome


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
