"""The bundled model as a GGUF file, for all tests of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from other_servers.llamacpp import convert_model


@pytest.fixture(scope="session")
def gguf_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert_model(tmp_path_factory.mktemp("model"))
