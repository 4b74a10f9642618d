"""Settings among the environment variables, and names that were meant to be settings.

`PACELINE_<SECTION>__<SETTING>`, in capitals, sets a value. A name that only resembles one would
leave a setting at its default, such as keys that are not required. So every name with this prefix
must be a setting, a variable that Paceline reads elsewhere, or one that Kubernetes sets.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping

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
        "PACELINE_SUPERVISED",
    }
)
"""Variables that Paceline, or the examples in its documentation, use for something else."""

OTHER_PREFIXES = ("PACELINE_CORE_ENV_",)
"""Of variables that the launcher gives to an engine's core."""

_LINK_URL = re.compile(r"(tcp|udp|sctp)://\S+")
_OF_SERVICE = re.compile(
    r"PACELINE(_[A-Z0-9]+)*_("
    r"SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_MIN_LIKENESS = 0.75
"""Of a prefix with a typing error, such as PACLINE_ (0.94). Chosen empirically."""


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
    upper = name.upper()
    if upper.startswith(PREFIX):
        return not (
            name in OTHER_NAMES or name.startswith(OTHER_PREFIXES) or _is_of_service(name, value)
        )
    return any(
        upper.endswith(setting.removeprefix(PREFIX))
        and _likeness(upper.removesuffix(setting.removeprefix(PREFIX))) >= _MIN_LIKENESS
        for setting in known
    )


def _likeness(prefix: str) -> float:
    return difflib.SequenceMatcher(None, prefix, PREFIX).ratio()


def _is_of_service(name: str, value: str) -> bool:
    """Whether Kubernetes sets this variable, for a service whose name begins with paceline."""
    if _OF_SERVICE.fullmatch(name):
        return True
    return name.endswith("_PORT") and _LINK_URL.fullmatch(value) is not None


def _hint(name: str, known: Collection[str]) -> str:
    upper = name.upper()
    if upper in OTHER_NAMES:
        return f"did you mean {upper}?"
    squeezed = {re.sub("_+", "_", setting): setting for setting in known}
    near = (
        [squeezed[same] for same in [re.sub("_+", "_", upper).rstrip("_")] if same in squeezed]
        or [one for one in known if one.rpartition("__")[2] == upper.rpartition("__")[2]]
        or difflib.get_close_matches(upper, known, n=1, cutoff=0.75)
    )
    if near:
        return f"did you mean {near[0]}?"
    return (
        "`paceline serve --print-config` lists all settings; rename it if it is another program's"
    )
