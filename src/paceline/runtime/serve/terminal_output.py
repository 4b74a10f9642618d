"""Terminal output of `paceline serve`: progress while it starts, then the addresses.

One line per step on standard error, then one line with the addresses on standard output, for
programs. A terminal also gets a spinner while the server starts, and commands to try.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.status import Status

from paceline.foundation.named_models import BUNDLED_NAME
from paceline.runtime.gateway import RunningGateway
from paceline.runtime.gateway.settings import KeySettings

_FOR_CHAT = "Explain why the sky is blue."
_FOR_CODE = "Turn this signature into JSON:\n\ndef write(self, data, offset=0):"
"""One that the bundled pair answers right, if greedy."""


class TerminalOutput:
    """Prints progress and the addresses. A context manager."""

    def __init__(self, served_name: str | None, keys: KeySettings) -> None:
        """`served_name` is the model id of the local engines; None without local engines."""
        self._served_name = served_name
        self._keys = keys
        self._steps: dict[str, str] = {}
        self._started_at_s = time.monotonic()
        self._errors = Console(stderr=True, highlight=False)
        self._out = Console(highlight=False, soft_wrap=True)
        self._status: Status | None = None

    def __enter__(self) -> TerminalOutput:
        if self._errors.is_terminal:
            self._status = self._errors.status(f"Starting {self._served_name or 'the gateway'}")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def progress(self, name: str, step: str) -> None:
        """Show the current step of an engine, of a replica, or of `paceline` itself."""
        if self._steps.get(name) != step:
            self._steps[name] = step
            subject = "paceline" if name == "paceline" else f"paceline: {name}"
            self._errors.print(f"{subject}: {step}", markup=False, soft_wrap=True)

    def ready(self, gateway: RunningGateway) -> None:
        """Print the addresses and, on a terminal, commands to try."""
        self._stop()
        models = sorted({replica.model for replica in gateway.fleet.replicas() if replica.model})
        self._out.print(
            f"paceline: serving {', '.join(models)} on {gateway.url} (admin {gateway.admin_url})"
        )
        if self._out.is_terminal:
            duration_s = time.monotonic() - self._started_at_s
            curl = _curl(self._keys.file, "PACELINE_KEY")
            examples = _examples(curl, gateway.url, self._served_name or models[0])
            self._out.print(f"\nReady after {duration_s:.0f} s. Try:\n\n{examples}\n", markup=False)
            curl = _curl(self._keys.admin_key_file, "PACELINE_ADMIN_KEY")
            self._out.print(
                f"Show draft length and policy: {curl} {gateway.admin_url}/admin/governor\n"
                f"Watch it live: {gateway.admin_url}/dashboard    Stop: Ctrl-C"
            )

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _curl(key_file: Path | None, variable: str) -> str:
    return "curl" if key_file is None else f'curl -H "Authorization: Bearer ${variable}"'


def _examples(curl: str, url: str, model: str) -> str:
    """A request, whole and streamed."""
    prompt = _FOR_CODE if model == BUNDLED_NAME else _FOR_CHAT
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": 200,
    }
    return "\n\n".join(
        f"  {command} {url}/v1/chat/completions -H 'Content-Type: application/json' "
        f"-d '{json.dumps(fields)}'"
        for command, fields in ((curl, body), (f"{curl} -N", {**body, "stream": True}))
    )
