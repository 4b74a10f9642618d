"""What does a person see while the server starts, and once it serves?

On a terminal a line that tells what is going on and for how long, then the addresses and two
commands to try. In a pipe only the one line with the addresses, on standard output, for programs;
what is going on is told on standard error, a line for each step.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.status import Status

from paceline.gateway import RunningGateway
from paceline.gateway.settings import KeySettings


class Screen:
    """Progress on standard error. Use as a context manager."""

    def __init__(self, served_name: str | None, keys: KeySettings) -> None:
        """`served_name` is the model of the engines; None when there are only remote replicas."""
        self._served_name = served_name
        self._subject = served_name or "the gateway"
        self._keys = keys
        self._steps: dict[str, str] = {}
        self._started_at_s = time.monotonic()
        self._errors = Console(stderr=True, highlight=False)
        self._out = Console(highlight=False, soft_wrap=True)
        self._status: Status | None = None

    def __enter__(self) -> Screen:
        if self._errors.is_terminal:
            self._status = self._errors.status(f"Starting {self._subject}")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def progress(self, engine: str, step: str) -> None:
        is_news = self._steps.get(engine) != step
        self._steps[engine] = step
        if self._status is None:
            if is_news:
                subject = "paceline" if engine == "paceline" else f"paceline: {engine}"
                self._errors.print(f"{subject}: {step}", markup=False, soft_wrap=True)
        else:
            now = "; ".join(f"{name}: {what}" for name, what in sorted(self._steps.items()))
            self._status.update(f"Starting {self._subject} ({now})")

    def ready(self, gateway: RunningGateway) -> None:
        self._stop()
        models = sorted({replica.model for replica in gateway.fleet.replicas() if replica.model})
        self._out.print(
            f"paceline: serving {', '.join(models)} on {gateway.url} (admin {gateway.admin_url})"
        )
        if self._out.is_terminal:
            took_s = time.monotonic() - self._started_at_s
            curl = _curl(self._keys.file, "PACELINE_KEY")
            examples = _examples(curl, gateway.url, self._served_name or models[0])
            self._out.print(f"\nReady after {took_s:.0f} s. Try:\n\n{examples}\n", markup=False)
            curl = _curl(self._keys.admin_key_file, "PACELINE_ADMIN_KEY")
            self._out.print(
                f"Draft length and policy: {curl} {gateway.admin_url}/admin/governor    "
                "Stop: Ctrl-C"
            )

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _curl(key_file: Path | None, variable: str) -> str:
    return "curl" if key_file is None else f'curl -H "Authorization: Bearer ${variable}"'


def _examples(curl: str, url: str, model: str) -> str:
    question = "Write a docstring for:\ndef add(a, b):\n    return a + b"
    chat = json.dumps(
        {
            "model": model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": 64,
        }
    )
    complete = json.dumps(
        {
            "model": model,
            "prompt": "def read_lines(path):\n",
            "max_tokens": 64,
            "stream": True,
        }
    )
    return "\n\n".join(
        f"  {curl} {url}{path} -H 'Content-Type: application/json' -d '{body}'"
        for path, body in (("/v1/chat/completions", chat), ("/v1/completions", complete))
    )
