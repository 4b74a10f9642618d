"""`python -m plain_words [PATH…]`: print forbidden words in the tree, exit with 1 if there are any.

Run it from the repository's root with `PYTHONPATH=tools`; without PATH it reads every tracked file
of prose or Python, except recorded data.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from plain_words.checker import check, load_words

_ENDINGS = (".py", ".md", ".sh", ".yaml", ".yml", "Makefile")
_LEFT_OUT = (
    "benchmarks/results/",  # raw results stay as they were written
    "tools/plain_words/",  # the list itself
    "tests/unit/tools/test_plain_words.py",
    "docs/openapi.yaml",  # generated from checked sources
)


def main(paths: Sequence[str]) -> int:
    """Check `paths`, files or folders; all tracked files when there are none."""
    files = [file for file in _tracked(paths) if _is_checked(file)]
    words, num_findings = load_words(), 0
    for file in files:
        for finding in check(file, Path(file).read_text(encoding="utf-8"), words):
            num_findings += 1
            print(f"{file}:{finding.line}: {finding.found!r}: write {finding.instead!r}")
    if num_findings:
        print(f"{num_findings} words in {len(files)} files that this project does not use;")
        print("the list and its exceptions: tools/plain_words/words.toml")
    return 1 if num_findings else 0


def _tracked(paths: Sequence[str]) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [file for file in listed.splitlines() if Path(file).is_file()]


def _is_checked(file: str) -> bool:
    return file.endswith(_ENDINGS) and not file.startswith(_LEFT_OUT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
