"""Print every figure in README.md and docs/ that its raw result does not give."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.claims.checking import find_all_problems

if __name__ == "__main__":
    problems = find_all_problems()
    print("\n".join(problems) or "every figure that has a raw result equals it")
    sys.exit(bool(problems))
