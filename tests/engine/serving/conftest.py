"""The servers that files of this folder share: a start takes 25 s of processor time.

`engine.conftest` puts the files in an order in which the tests that kill a server come last.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.serving.paceline_server import Serving, serve_with_keys
from engine.serving.vllm_server import VllmServer, serve_vllm


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """`paceline serve` for two tenants."""
    with serve_with_keys(tmp_path_factory.mktemp("serve")) as started:
        yield started


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """`vllm serve` with AdaptiveScheduler and the bundled pair."""
    with serve_vllm(tmp_path_factory.mktemp("v")) as started:
        yield started
