"""A fleet whose replicas write their answers in different styles, with keys of two tenants."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from chaos.fleet import Fleet, running_fleet
from chaos.mixed_load.poison import FAULTS
from paceline.cli import main as paceline

REPLICA_STYLES = (
    "",
    "id,event,retry,comment,keep_alive,crlf,after_done",
    "multi_line,no_blank,coalesced,cut,json_label",
    "random,close_delimited,no_done",
)
"""Of the replicas in turn. The first is plain."""
DETECTION: dict[str, Any] = {
    "fleet": {"poll_timeout_s": 4.0},
    "failures": {"max_open_s": 1, "silence_s": 3.0, "first_silence_s": 4.0},
    "server": {"stall_timeout_s": 4.0},
}
"""More patient than other tests: on a busy machine, a replica that nobody stopped may be silent for
a second, and then the streams that cannot be continued end with an error."""
INNOCENT, POISONER = "innocent", "poisoner"


@contextlib.contextmanager
def running_decorated_fleet(
    num_replicas: int,
    *flags: str,
    styles: Sequence[str] = REPLICA_STYLES,
) -> Iterator[Fleet]:
    """Start the fleet; its replicas have these styles in turn. Its key is that of the innocent
    tenant; `fleet.keys` has both.

    Replicas answer the poison of `chaos.mixed_load.poison` with errors, also after a restart.
    """
    with tempfile.TemporaryDirectory(prefix="decorated-") as folder:
        file, script = Path(folder) / "keys", Path(folder) / "faults.json"
        script.write_text(json.dumps(FAULTS))
        keys = {tenant: _create_key(file, tenant) for tenant in (INNOCENT, POISONER)}
        own_styles = [styles[n % len(styles)] for n in range(num_replicas)]
        with running_fleet(
            num_replicas,
            *("--faults", str(script)),
            *flags,
            config={**DETECTION, "keys": {"file": str(file)}},
            replica_flags=[("--answer-style", style) for style in own_styles],
            key=keys[INNOCENT],
        ) as fleet:
            fleet.keys, fleet.styles = keys, [style or "plain" for style in own_styles]
            yield fleet


def _create_key(file: Path, tenant: str) -> str:
    made = CliRunner().invoke(paceline, ["keys", "create", "--file", str(file), "--tenant", tenant])
    if made.exit_code != 0:
        raise RuntimeError(made.output)
    return str(made.stdout.strip())
