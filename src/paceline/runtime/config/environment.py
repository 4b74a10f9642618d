"""Settings among the environment variables, and names that were meant to be settings.

`PACELINE_<SECTION>__<SETTING>`, in capitals, sets a value. A name that only resembles one would
leave a setting at its default, such as keys that are not required. So every name with this prefix,
in any letters and with anything between its words, must be a setting, a variable that Paceline
reads elsewhere, or one that Kubernetes sets.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from paceline.foundation.command_line.near_names import nearest
from paceline.runtime.config.likeness import is_like_paceline

PREFIX = "PACELINE_"

OTHER_NAMES = frozenset(
    {
        "PACELINE_ADMIN_KEY",  # of commands that ask a server
        "PACELINE_API_KEY",
        "PACELINE_KEY",
        "PACELINE_BENCH_ADMIN_KEY",
        "PACELINE_BENCH_API_KEY",
        "PACELINE_CONTROL_SOCKET",  # from the launcher to an engine
        "PACELINE_RECORDING_FILE",
        "PACELINE_COSTS_FOLDER",  # of engines: where the costs of their steps are kept
        "PACELINE_SUPERVISED",
    }
)
"""Variables that Paceline, or the examples in its documentation, use for something else."""

OTHER_PREFIXES = ("PACELINE_CORE_ENV_",)
"""Of variables that the launcher gives to an engine's core."""

_LINK_URL = re.compile(r"(tcp|udp|sctp)://\S+")
_OF_SERVICE = re.compile(
    r"[A-Z0-9]+(_[A-Z0-9]+)*_("
    r"SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_MIN_LIKENESS = 0.75
"""Of a whole name: all begin with PACELINE_. Chosen empirically."""
_MIN_LIKENESS_OF_REST = 0.6
"""Of what follows a misspelt PACELINE_ and a setting's name without it: other programs may have
names that resemble Paceline's. Chosen empirically."""


def misspelt(environ: Mapping[str, str], known: Collection[str]) -> list[str]:
    """One sentence for each variable that was meant to be a setting, and is none.

    `known` are the right names of all settings.
    """
    return [
        f"the environment variable {name} is not a setting; {_hint(name, known)}"
        for name in sorted(environ)
        if name not in known and _looks_like_setting(name, environ[name], known)
    ]


def _looks_like_setting(name: str, value: str, known: Collection[str]) -> bool:
    if name in OTHER_NAMES or name.startswith(OTHER_PREFIXES) or _is_of_service(name, value):
        return False
    squeezed = _squeeze(name)
    if squeezed.startswith(PREFIX):
        return True
    settings = [_squeeze(setting).removeprefix(PREFIX) for setting in known]
    last_parts = set(map(_last_part, known))
    return any(
        rest in last_parts or nearest(rest, settings, _MIN_LIKENESS_OF_REST)
        for rest in _without_misspelt_prefix(squeezed)
    )


def _squeeze(name: str) -> str:
    """The name in capitals, with one underscore between its words.

    >>> _squeeze("paceline-keys__File_")
    'PACELINE_KEYS_FILE'
    """
    return re.sub("[^A-Z0-9]+", "_", name.upper()).strip("_")


def _without_misspelt_prefix(squeezed: str) -> Iterator[str]:
    """What may be the name of a setting, after one or two words that resemble PACELINE, or after
    PACELINE itself without an underscore."""
    words = squeezed.split("_")
    for count in (1, 2):
        if is_like_paceline("".join(words[:count])):
            yield "_".join(words[count:])
    if words[0].startswith(PREFIX.rstrip("_")):
        yield squeezed.removeprefix(PREFIX.rstrip("_"))


def _is_of_service(name: str, value: str) -> bool:
    """Whether Kubernetes sets this variable, for a service whose name begins with paceline."""
    if _OF_SERVICE.fullmatch(name):
        return True
    return name.endswith("_PORT") and _LINK_URL.fullmatch(value) is not None


def _hint(name: str, known: Collection[str]) -> str:
    squeezed = _squeeze(name)
    if squeezed in OTHER_NAMES:
        return f"did you mean {squeezed}?"
    by_squeezed = {_squeeze(setting): setting for setting in known}
    ends = [one for one in known if squeezed.endswith(f"_{_last_part(one)}")]
    if squeezed in by_squeezed:
        return f"did you mean {by_squeezed[squeezed]}?"
    if ends:
        return f"did you mean {max(ends, key=lambda one: len(_last_part(one)))}?"
    if near := nearest(squeezed, by_squeezed, _MIN_LIKENESS):
        return f"did you mean {by_squeezed[near]}?"
    return (
        "`paceline serve --print-config` lists all settings; rename it if it is another program's"
    )


def _last_part(setting: str) -> str:
    return setting.rpartition("__")[2]
