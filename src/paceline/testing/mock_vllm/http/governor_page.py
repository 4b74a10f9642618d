"""The route /admin/governor, as Paceline's admin port has it: read and set the draft length.

vLLM has no such route. The mock has it with scripted speculation, so that a client that changes
draft lengths on a running server can be tested against speeds that are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.testing.mock_vllm.engine.engine import Engine
from paceline.testing.mock_vllm.http.refusals import RequestRefused
from paceline.testing.mock_vllm.model.speculation import Speculation


class GovernorPage:
    """The governor of a mock engine. Its only policy is fixed."""

    def __init__(self, engine: Engine, speculation: Speculation) -> None:
        self._engine = engine
        self._longest = speculation.draft_length

    def render(self) -> bytes:
        """The answer to GET."""
        state = {
            "policy": "fixed",
            "policy_parameters": {"draft_length": self._engine.draft_length},
            "draft_length": self._engine.draft_length,
            "max_draft_length": self._longest,
        }
        return msgspec.json.encode({"replicas": {"mock": state}})

    def change(self, body: Mapping[str, Any]) -> bytes:
        """The answer to PATCH {"draft_length": N}. Raises RequestRefused for anything else."""
        length = body.get("draft_length")
        is_length = type(length) is int and 0 <= length <= self._longest
        if set(body) != {"draft_length"} or not is_length:
            raise RequestRefused(
                400, f"the body is {dict(body)}; it must be draft_length from 0 to {self._longest}"
            )
        assert isinstance(length, int)
        self._engine.draft_length = length
        return self.render()
