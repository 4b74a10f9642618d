"""The server that two files of this folder share: a start takes 25 s of processor time.

`engine.conftest` puts these files into one worker, in an order in which the tests that kill the
server come last.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.serving.paceline_server import Serving, serve_with_keys


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """`paceline serve` for two tenants."""
    with serve_with_keys(tmp_path_factory.mktemp("serve")) as started:
        yield started
