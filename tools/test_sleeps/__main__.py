"""`python -m test_sleeps [PATH…]`: print what may let a test fail by chance, exit with 1 if any.

Run it from the repository's root with `PYTHONPATH=tools`; without PATH it reads all of `tests`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from test_sleeps.checker import check


def main(paths: Sequence[str]) -> int:
    """Check `paths`, files or folders; `tests` when there are none."""
    kinds, num_findings = dict[str, str](), 0
    for file in _sources(paths or ["tests"]):
        for finding in check(file.read_text(encoding="utf-8")):
            num_findings += 1
            kinds[finding.kind] = finding.instead
            print(f"{file}:{finding.line}: {finding.kind}: {finding.found}")
    for kind, instead in sorted(kinds.items()):
        print(f"{kind}: {instead}")
    return 1 if num_findings else 0


def _sources(paths: Sequence[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
