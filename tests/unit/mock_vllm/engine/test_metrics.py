"""The metrics page of the mock server."""

from __future__ import annotations

from paceline.testing.mock_vllm.engine.engine import Engine
from paceline.testing.mock_vllm.engine.metrics import EngineMetrics
from paceline.testing.mock_vllm.settings import MockVllmSettings


def test_only_a_server_that_speculates_counts_drafts() -> None:
    """As vLLM: a gateway learns from the counter that the server drafts."""
    engine = Engine(MockVllmSettings())
    assert b"spec_decode" not in EngineMetrics(engine, "m").render()
    page = EngineMetrics(engine, "m", speculates=True).render()
    assert b'vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 0.0' in page
