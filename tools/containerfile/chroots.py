"""Run the steps of a Containerfile in chroots. Needs root, util-linux and debootstrap."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from containerfile.steps import ContainerfileError, Context, Stage, Step, after, copied

Report = Callable[[str], None]

STEPS_LOG = "steps.log"
"""What the RUN steps print, in the folder of the build."""

_SUITES = {"docker.io/library/debian:bookworm-slim": "bookworm"}
"""Debian's release of each base image that debootstrap can make."""
_IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info")
_ENTER = """
set -e
root=$1 user=$2 folder=$3; shift 3
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
# As in a container; lscpu, which vLLM asks for the processors, reads it.
mount --bind /sys "$root/sys"
mount -o remount,bind,ro "$root/sys"
while [[ $1 != -- ]]; do
    mkdir -p "$(dirname "$root$2")"
    if [[ -d $1 ]]; then mkdir -p "$root$2"; else touch "$root$2"; fi
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
    shift 2
done
shift
exec chroot --userspec="$user" "$root" /usr/bin/env -C "$folder" "$@"
"""
"""In a mount namespace of its own, so nothing needs to be unmounted."""


@dataclass(frozen=True, slots=True)
class Build:
    """What a build reads besides the file."""

    context: Path
    """The folder that COPY copies from."""
    folder: Path
    """For the chroots; must be empty."""
    mirror: str
    """Of Debian's packages."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Values for ARG."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """More variables for RUN, such as where pip finds packages."""
    binds: Sequence[tuple[str, str]] = ()
    """Paths of this machine, and where RUN sees them; read-only."""


@dataclass(frozen=True, slots=True)
class Built:
    """The last stage after its last step."""

    root: Path
    context: Context


def build(stages: Sequence[Stage], plan: Build, report: Report) -> Built:
    """Execute all stages. Raises `ContainerfileError` or `subprocess.CalledProcessError`."""
    roots: dict[str | None, Path] = {}
    built: Built | None = None
    plan.folder.joinpath(STEPS_LOG).touch()
    for number, stage in enumerate(stages):
        root = plan.folder / f"stage-{number}"
        _make_root(stage.base, root, plan, report)
        context = Context()
        for step in stage.steps:
            start = time.monotonic()
            if step.name == "RUN":
                _run(step, context, root, plan)
            elif step.name == "COPY":
                _copy(step, context, root, plan, roots)
            context = after(context, step, plan.arguments)
            if step.name == "WORKDIR":
                (root / context.folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
            report(f"line {step.line}: {step.name} in {time.monotonic() - start:.1f} s")
        roots[stage.name] = root
        built = Built(root, context)
    if built is None:
        raise ContainerfileError("the file has no stage")
    return built


def entered(
    root: Path,
    context: Context,
    command: Sequence[str],
    *,
    variables: Mapping[str, str],
    binds: Sequence[tuple[str, str]] = (),
    namespaces: Sequence[str] = (),
) -> list[str]:
    """The command line that runs a command in a chroot, in mount and process namespaces."""
    return [
        "unshare", "--mount", "--pid", "--fork", "--kill-child", *namespaces,
        "bash", "-c", _ENTER, "enter", str(root), context.user, context.folder,
        *(part for bind in binds for part in bind), "--",
        "-i", *(f"{name}={value}" for name, value in variables.items()), *command,
    ]  # fmt: skip


def _make_root(base: str, root: Path, plan: Build, report: Report) -> None:
    if base not in _SUITES:
        raise ContainerfileError(f"FROM {base}: known are {', '.join(_SUITES)}")
    first = plan.folder / f"base-{_SUITES[base]}"
    if not first.exists():
        start = time.monotonic()
        subprocess.run(
            ["debootstrap", "--variant=minbase", _SUITES[base], str(first), plan.mirror],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        shutil.copy("/etc/resolv.conf", first / "etc/resolv.conf")
        report(f"FROM {base}: debootstrap in {time.monotonic() - start:.1f} s")
    subprocess.run(["cp", "-a", str(first), str(root)], check=True)


def _run(step: Step, context: Context, root: Path, plan: Build) -> None:
    variables = {**plan.environment, **context.arguments, **context.environment}
    command = entered(
        root,
        context,
        [*context.shell, step.arguments],
        variables=variables,
        binds=plan.binds,
    )
    with plan.folder.joinpath(STEPS_LOG).open("ab") as log:
        done = subprocess.run(command, check=False, stdout=log, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise ContainerfileError(f"line {step.line}: RUN ended with {done.returncode}")


def _copy(
    step: Step, context: Context, root: Path, plan: Build, roots: Mapping[str | None, Path]
) -> None:
    stage, sources, target = copied(step, context)
    place = root / target.lstrip("/")
    for source in sources:
        if stage is not None:
            # Links instead of copies: the stages are on one disk, and nothing changes the files.
            found = roots[stage] / source.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", "--link", str(found), str(place)], check=True)
            continue
        found = plan.context / source
        if found.is_dir():
            shutil.copytree(found, place, ignore=_IGNORED, symlinks=True, dirs_exist_ok=True)
        else:
            file = place / found.name if target.endswith("/") else place
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, file)
