"""Parse a Containerfile into stages and their steps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

KNOWN = frozenset(
    {"SHELL", "RUN", "WORKDIR", "COPY", "ARG", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
)
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class ContainerfileError(ValueError):
    """A file that this package cannot execute; the message names the line."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction."""

    name: str
    """In capitals."""
    arguments: str
    line: int
    """Of the file, from 1."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What follows one FROM."""

    base: str
    name: str | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """What earlier steps of a stage set for later ones, and for the container."""

    shell: tuple[str, ...] = ("/bin/sh", "-c")
    folder: str = "/"
    user: str = "0:0"
    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": _DEFAULT_PATH})
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Of ARG: variables of RUN that the container does not have."""
    entry_point: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


def parse(text: str) -> list[Stage]:
    """Return the stages. Raises `ContainerfileError`.

    >>> parse("FROM debian AS build\\nRUN a \\\\\\n    && b")
    [Stage(base='debian', name='build', steps=(Step(name='RUN', arguments='a     && b', line=2),))]
    """
    stages: list[Stage] = []
    for step in _steps(text):
        if step.name == "FROM":
            base, *rest = step.arguments.split()
            if rest and (len(rest) != 2 or rest[0].upper() != "AS"):
                raise ContainerfileError(f"line {step.line}: FROM {step.arguments}")
            stages.append(Stage(base, rest[1] if rest else None, ()))
        elif not stages:
            raise ContainerfileError(f"line {step.line}: {step.name} stands before the first FROM")
        elif step.name not in KNOWN:
            raise ContainerfileError(
                f"line {step.line}: {step.name} is not known; known are {', '.join(sorted(KNOWN))}"
            )
        else:
            stages[-1] = replace(stages[-1], steps=(*stages[-1].steps, step))
    if not stages:
        raise ContainerfileError("the file has no FROM")
    return stages


def after(context: Context, step: Step, given: Mapping[str, str]) -> Context:
    """The context after a step that runs nothing. `given` replaces the defaults of ARG."""
    match step.name:
        case "SHELL":
            return replace(context, shell=_words(step))
        case "WORKDIR":
            return replace(context, folder=_joined(context.folder, step.arguments))
        case "USER":
            return replace(context, user=step.arguments)
        case "ENTRYPOINT":
            return replace(context, entry_point=_words(step))
        case "CMD":
            return replace(context, command=_words(step))
        case "ARG":
            name, _, default = step.arguments.partition("=")
            value = given.get(name, default)
            return replace(context, arguments={**context.arguments, name: value})
        case "ENV":
            # Every value of one instruction sees the environment before it.
            parts = (part.partition("=") for part in step.arguments.split())
            added = {name: expanded(value, context.environment) for name, _, value in parts}
            return replace(context, environment={**context.environment, **added})
        case _:
            return context


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Text with $NAME and ${NAME} replaced; unknown names become empty.

    >>> expanded("/opt/bin:$PATH", {"PATH": "/bin"})
    '/opt/bin:/bin'
    """
    return _VARIABLE.sub(lambda match: variables.get(match[1] or match[2], ""), text)


def copied(step: Step, context: Context) -> tuple[str | None, Sequence[str], str]:
    """Of a COPY: the stage that it copies from (None: the build context), sources, destination."""
    parts = step.arguments.split()
    stage = None
    while parts and parts[0].startswith("--"):
        option, _, value = parts.pop(0).partition("=")
        if option != "--from":
            raise ContainerfileError(f"line {step.line}: COPY {option} is not known")
        stage = value
    if len(parts) < 2:
        raise ContainerfileError(f"line {step.line}: COPY {step.arguments}")
    *sources, target = parts
    ends = "/" if target.endswith("/") or target == "." or target == "./" else ""
    return stage, sources, _joined(context.folder, target).rstrip("/") + ends


def _steps(text: str) -> Iterator[Step]:
    parts: list[str] = []
    line, begins = 0, 0
    for content in text.splitlines():
        line += 1
        if content.lstrip().startswith("#") or (not content.strip() and not parts):
            continue
        begins = begins or line
        if content.endswith("\\"):
            parts.append(content[:-1])
            continue
        name, _, arguments = "".join([*parts, content]).strip().partition(" ")
        yield Step(name.upper(), arguments.strip(), begins)
        parts, begins = [], 0
    if parts:
        raise ContainerfileError(f"line {line}: the last instruction does not end")


def _words(step: Step) -> tuple[str, ...]:
    try:
        words = json.loads(step.arguments)
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ContainerfileError(f"line {step.line}: {step.name} needs a JSON list of words")
    return tuple(words)


def _joined(folder: str, path: str) -> str:
    if path.startswith("/"):
        return path
    path = path.removeprefix("./")
    return f"{folder.rstrip('/')}/{'' if path == '.' else path}".rstrip("/") or "/"
