"""Read and write raw results: compact JSON with one record per line, compressed for `.json.gz`.

Every top-level key begins a line, and so does every entry of a top-level list. Scripts name small
results `NAME.json` and large ones (above some 64 kB) `NAME.json.gz`. Equal documents give equal
bytes: the gzip header carries no time and no file name.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from paceline.foundation.results.files import write_bytes
from paceline.foundation.results.source_state import SourceState, source_state


class ResultFile:
    """The raw result of this run. It never replaces the file of another run.

    Create it before measuring, so that a run that may not be recorded fails early.
    """

    def __init__(self, path: Path, *, allow_dirty: bool = False) -> None:
        """Take `path`, or the next free name: `NAME.json`, `NAME-2.json`, ….

        Exits with an error if the checkout has uncommitted changes, unless `allow_dirty`. The
        result then records `dirty: true`. Creates the folder; exits if it cannot be written to.
        """
        refuse_dirty(source_state(), allow_dirty=allow_dirty)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sys.exit(f"Error: the folder of {path} cannot be created: {error}")
        if not os.access(path.parent, os.W_OK):
            sys.exit(f"Error: {path.parent} is not a folder that can be written to")
        self.path = fresh_path(path)
        self._is_written = False

    @classmethod
    def resume(cls, path: Path, *, allow_dirty: bool = False) -> ResultFile:
        """Continue the file of an earlier run."""
        file = cls(path, allow_dirty=allow_dirty)
        file.path, file._is_written = path, True
        return file

    def write(self, document: Mapping[str, Any]) -> None:
        """Write the document, or replace what this run wrote before.

        Raises `ValueError` if its environment does not name the commit.
        """
        if "commit" not in document.get("environment", {}):
            raise ValueError("environment has no commit; set it to describe_environment(sys.argv)")
        if not self._is_written:
            self.path = fresh_path(self.path)
        write_bytes(self.path, encode_result(self.path.name, document))
        self._is_written = True


def begin_or_resume(
    path: Path,
    resume: Path | None,
    begun: Mapping[str, Any],
    *,
    same: Collection[str],
    but_for: Collection[str] = (),
    allow_dirty: bool = False,
) -> tuple[ResultFile, dict[str, Any]]:
    """A new file at `path` with the document `begun`, or the earlier one `resume`, to be completed.

    `same` names mappings of the document that determine what is run. They must be equal in the
    earlier one, apart from the entries `but_for`, which this run sets; exits with an error if not.
    The environment of every run after the first is added to `resumed_in`: its commit may differ.
    """
    if resume is None:
        return ResultFile(path, allow_dirty=allow_dirty), dict(begun)
    result = ResultFile.resume(resume, allow_dirty=allow_dirty)
    earlier = read_result(resume)
    for key in same:
        before, now = earlier[key], json.loads(json.dumps(begun[key]))
        for name in dict.fromkeys([*before, *now]):
            if name not in but_for and before.get(name) != now.get(name):
                sys.exit(
                    f"Error: {resume} cannot be completed by this run: its {key} has {name} = "
                    f"{before.get(name)!r}, and this run {now.get(name)!r}. Give the options that "
                    "it was begun with, or begin a new result without --resume"
                )
    resumed_in = [*earlier.get("resumed_in", ()), begun["environment"]]
    return result, {**earlier, **{key: begun[key] for key in same}, "resumed_in": resumed_in}


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Add the option `--resume`, for `begin_or_resume`."""
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="complete this result; needs the same options"
    )


def add_resumable(parser: argparse.ArgumentParser, *, minutes: float, unit: str) -> None:
    """Add the options of a run in several pieces: `--minutes`, after which no `unit` begins,
    `--resume`, `--results` and `--allow-dirty`.
    """
    parser.add_argument(
        "--minutes", type=float, default=minutes, help=f"no {unit} begins after this"
    )
    add_resume(parser)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)


def add_allow_dirty(parser: argparse.ArgumentParser) -> None:
    """Add the flag `--allow-dirty`, for `ResultFile`."""
    parser.add_argument(
        "--allow-dirty",
        action="store_true",
        help="write the result although the checkout has uncommitted changes, and record that",
    )


def refuse_dirty(state: SourceState, *, allow_dirty: bool) -> None:
    """Exit with an error if the checkout has uncommitted changes."""
    if state.changes and not allow_dirty:
        sys.exit(
            f"Error: {len(state.changes)} files differ from commit {state.commit}, such as "
            f"{state.changes[0][3:]}, so the result would not belong to a commit. Commit or stash "
            "them, or give --allow-dirty, which records dirty: true."
        )


def fresh_path(path: Path) -> Path:
    """The path, or the first of `NAME-2.json`, `NAME-3.json`, … that does not exist."""
    ending = ".json.gz" if path.name.endswith(".json.gz") else path.suffix
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name.removesuffix(ending)}-{number}{ending}")
    return found


def read_result(path: Path) -> dict[str, Any]:
    """The document of a result file, compressed or not."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    document: dict[str, Any] = json.loads(data)
    return document


def sibling(path: Path, ending: str) -> Path:
    """The path of a file made from a result: `NAME.json.gz` and `.md` give `NAME.md`."""
    name = path.name.removesuffix(".gz").removesuffix(".json")
    return path.with_name(name + ending)


def encode_result(name: str, document: Mapping[str, Any]) -> bytes:
    """The bytes of a result file of this name, gzip-compressed when it ends in `.gz`."""
    data = render_result(document).encode()
    return gzip.compress(data, compresslevel=9, mtime=0) if name.endswith(".gz") else data


def render_result(document: Mapping[str, Any]) -> str:
    """The text of a result file.

    >>> print(render_result({"name": "x", "runs": [{"a": 1}, {"a": 2}]}), end="")
    {
    "name":"x",
    "runs":[
    {"a":1},
    {"a":2}
    ]
    }
    """
    lines = (f"{_compact(key)}:{_render_value(value)}" for key, value in document.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _render_value(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(_compact(entry) for entry in value) + "\n]"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
