"""`Deployment`: what every check observes, with the settings of the validation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from paceline.foundation.workloads import Prompt
from paceline.operations.validate.checks.scored_prompts import ScoredPrompt
from paceline.operations.validate.target.target import Target
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Missing, Violation

T = TypeVar("T")

PROMPTS = (
    "def read_config(path):\n    ",
    "import os\nimport sys\n\n\ndef main():\n    ",
    "class Queue:\n    def __init__(self, maxsize=0):\n        self.",
    "The quick brown fox jumps over the lazy dog. Then the",
)
"""Short texts that fit any language model."""


@dataclass(slots=True)
class Deployment:
    """The deployment that is validated."""

    target: Target
    tier: Tier
    prompts: tuple[Prompt, ...] = ()
    """Of the tier's load; empty: built-in texts."""
    audit_seconds: float = 120.0
    """Time of the check `lossless`."""
    is_shared: bool = False
    """Whether other clients use the deployment meanwhile."""
    allows_drain: bool = False
    """Whether a replica may be drained for a moment."""
    requested: tuple[str, ...] = ()
    """Checks that `--only` or `--require` names: they run even where they load other clients."""
    baseline: Target | None = None
    """A server of the unquantized model, for the check `quality`; not identified yet."""
    scored_prompts: tuple[ScoredPrompt, ...] = ()
    """The prompts that have a reference answer."""
    secrets: tuple[str, ...] = ()
    """Never shown in a reason."""
    shared: dict[str, Any] = field(default_factory=dict)
    """Observations that several checks decide about, by name."""

    def refuse_to_load(self, *checks: str) -> None:
        """`Missing` on a shared deployment unless one of these checks is requested by name."""
        if self.is_shared and not set(checks) & set(self.requested):
            raise Missing(
                "other clients use the deployment (--shared) and would wait; to run it anyway, "
                f"name it: --require {checks[0]}"
            )

    async def once(self, name: str, observe: Callable[[], Awaitable[T]]) -> T:
        """The observation of this name; made by the first check that needs it.

        One that failed is not made again: each check that needs it gets its exception.
        """
        if name not in self.shared:
            self.shared[name] = await self._outcome(name, observe)
        found = self.shared[name]
        if isinstance(found, Exception):
            raise found
        kept: T = found
        return kept

    async def _outcome(self, name: str, observe: Callable[[], Awaitable[T]]) -> T | Exception:
        try:
            return await observe()
        except Exception as error:  # noqa: BLE001 - raised in every check that needs it
            return error
        except asyncio.CancelledError:
            self.shared[name] = Violation(f"the observation {name!r} did not end in its time")
            raise


async def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await to the end even if cancelled meanwhile, however often; then raise the cancellation."""
    task = asyncio.ensure_future(coroutine)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


async def together(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All results, in order; the first exception cancels the rest and is raised."""
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in coroutines]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
