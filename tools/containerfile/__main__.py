"""`python -m containerfile FILE --folder DIR`: execute the file in chroots, and start the result.

Run it as root in the repository's root, with `PYTHONPATH=tools`, on a Debian with debootstrap and
iproute2. The folder needs 5 GB; it is removed at the end, unless --keep is given. Exits with 1 if a
step fails, and names it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from containerfile.chroots import STEPS_LOG, Build, build
from containerfile.served import SERVED_LOG, serve_once
from containerfile.steps import ContainerfileError, parse

_MIRROR = "http://deb.debian.org/debian"


def main() -> int:
    """Build, serve, remove."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--folder", type=Path, required=True, help="does not exist yet")
    parser.add_argument("--mirror", default=_MIRROR)
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="for ARG")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="more variables for RUN"
    )
    parser.add_argument(
        "--bind", action="append", default=[], metavar="PATH[:PLACE]", help="for RUN, read-only"
    )
    parser.add_argument("--ready-s", type=float, default=600, help="limit for the start")
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    options = parser.parse_args()
    start = time.monotonic()
    binds = [(path, place or path) for path, _, place in (b.partition(":") for b in options.bind)]
    try:
        stages = parse(options.file.read_text(encoding="utf-8"))
        options.folder.mkdir(parents=True)
        plan = Build(
            context=Path.cwd(),
            folder=options.folder.resolve(),
            mirror=options.mirror,
            arguments=_pairs(options.arg),
            environment=_pairs(options.env),
            binds=binds,
        )
        built = build(stages, plan, _report)
        serve_once(built, options.folder / SERVED_LOG, options.ready_s, _report)
    except (ContainerfileError, OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        for name in (STEPS_LOG, SERVED_LOG):
            _print_end(options.folder / name)
        return 1
    finally:
        if not options.keep:
            shutil.rmtree(options.folder, ignore_errors=True)
    _report(f"{options.file} in {time.monotonic() - start:.0f} s")
    return 0


def _pairs(texts: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def _print_end(log: Path) -> None:
    """The folder is removed, and its logs with it."""
    if log.exists():
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print(*lines[-40:], sep="\n", file=sys.stderr)


def _report(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
