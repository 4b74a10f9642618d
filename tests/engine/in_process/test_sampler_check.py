"""The sampler check asks every worker, and only unanimous answers turn sampled drafts on.

The workers here are fakes with scripted answers. Importing vLLM takes seconds and starts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from vllm.platforms import current_platform

from paceline.runtime.engine.compat.executor import find_executor
from paceline.runtime.engine.fixes.sampler_check import check_workers

if not current_platform.is_cpu():
    pytest.skip(
        "the check concerns vLLM's CPU build, and this is another one", allow_module_level=True
    )

pytestmark = pytest.mark.engine


class Workers:
    """An executor whose workers give scripted answers."""

    def __init__(self, *answers: str | None, error: Exception | None = None) -> None:
        self._answers = list(answers)
        self._error = error

    def collective_rpc(
        self, method: Callable[..., Any], timeout: float | None = None
    ) -> list[str | None]:
        if self._error is not None:
            raise self._error
        return self._answers


@pytest.mark.parametrize(
    ("executor", "why_not"),
    [
        (Workers(None, None), None),
        (Workers(None, "worker 1 is wrong"), "worker 1 is wrong"),
        (Workers(), "no worker answered"),
        (Workers(error=TimeoutError("too late")), "failed to check .* too late"),
        (None, "cannot be reached"),
    ],
)
def test_the_sampler_is_right_only_if_every_worker_says_so(
    executor: Workers | None, why_not: str | None
) -> None:
    """A wrong worker, no answer or no executor each turn sampled drafts off."""
    found = check_workers(executor)
    if why_not is None:
        assert found is None
    else:
        assert re.search(why_not, found or "")


def test_the_executor_of_the_engine_core_that_makes_the_scheduler_is_found() -> None:
    """Some frames up the stack; None if no frame has one."""

    class Core:
        def __init__(self) -> None:
            self.model_executor = Workers(None)
            self.found = (lambda: find_executor())()

    core = Core()
    assert core.found is core.model_executor
    assert find_executor() is None
