"""The named lengths in vLLM's own code: which decode steps find a full CUDA graph.

vLLM's classes choose the sizes to capture and the graph of a step. Nothing is captured, so no GPU
is needed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from paceline.foundation.compatibility.length_table import render_length_table
from paceline.runtime.engine.compat.captured_lengths import captured_lengths

pytestmark = pytest.mark.engine

MAX_CAPTURED_TOKENS = 512


def config(table: Any, *, max_length: int = 8, max_num_seqs: int = 256) -> Any:
    """The parts of VllmConfig that decide about graphs, with the sizes that vLLM chooses."""
    from vllm.config.compilation import CUDAGraphMode
    from vllm.config.vllm import VllmConfig

    speculative = SimpleNamespace(
        num_speculative_tokens_per_batch_size=table,
        uses_dynamic_speculative_decoding=lambda: table is not None,
        enable_adaptive_verification=False,
    )
    parts = SimpleNamespace(
        use_v2_model_runner=True,
        model_config=SimpleNamespace(enforce_eager=False),
        compilation_config=SimpleNamespace(
            cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE,
            max_cudagraph_capture_size=None,
            cudagraph_capture_sizes=None,
            post_init_cudagraph_sizes=lambda: None,
            pass_config=SimpleNamespace(enable_sp=False, fuse_rope_kvcache_cat_mla=False),
        ),
        scheduler_config=SimpleNamespace(max_num_seqs=max_num_seqs, max_num_batched_tokens=8192),
        parallel_config=SimpleNamespace(tensor_parallel_size=1, data_parallel_size=1),
        cache_config=SimpleNamespace(use_kda_recoverssm=False),
        speculative_config=speculative if max_length else None,
        num_speculative_tokens=max_length,
        uniform_decode_query_len=1 + max_length,
        performance_mode=None,
    )
    VllmConfig._set_cudagraph_sizes(parts)
    return parts


def graphs_of(monkeypatch: pytest.MonkeyPatch, parts: Any) -> Any:
    """vLLM's manager of the target's graphs, which takes them for captured."""
    from vllm.v1.worker.gpu import cudagraph_utils

    ranks = SimpleNamespace(is_first_rank=True, is_last_rank=True)
    monkeypatch.setattr(cudagraph_utils, "get_pp_group", lambda: ranks)
    platform = SimpleNamespace(get_global_graph_pool=lambda: None)
    monkeypatch.setattr(cudagraph_utils, "current_platform", platform)
    graphs = cudagraph_utils.CudaGraphManager(
        parts,
        torch.device("cpu"),
        parts.compilation_config.cudagraph_mode,
        parts.uniform_decode_query_len,
        varlen_decode=bool(
            parts.speculative_config and parts.speculative_config.enable_adaptive_verification
        ),
    )
    graphs._graphs_captured = True
    return graphs


def missing(monkeypatch: pytest.MonkeyPatch, parts: Any, length: int) -> list[int]:
    """The batch sizes whose decode step at `length` finds no full graph, up to the largest size."""
    graphs = graphs_of(monkeypatch, parts)
    per_request = 1 + length
    sizes = range(
        1, min(parts.scheduler_config.max_num_seqs, MAX_CAPTURED_TOKENS // per_request) + 1
    )
    return [
        size
        for size in sizes
        if graphs.dispatch(
            size, size * per_request, per_request, 0, max_query_len=per_request
        ).cg_mode.name
        != "FULL"
    ]


@pytest.mark.parametrize("max_num_seqs", [64, 100, 256, 1024])
def test_every_named_length_has_a_full_graph_at_every_batch_size(
    monkeypatch: pytest.MonkeyPatch, max_num_seqs: int
) -> None:
    """As many as an engine without speculation has at 0."""
    lengths = (0, 1, 3, 7)
    parts = config(render_length_table(lengths, max_num_seqs), max_num_seqs=max_num_seqs)
    for length in lengths:
        assert missing(monkeypatch, parts, length) == [], f"at length {length}"
    plain = config(None, max_length=0, max_num_seqs=max_num_seqs)
    assert missing(monkeypatch, plain, 0) == []


def test_without_names_every_length_but_the_maximum_runs_piecewise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = config(None)
    assert missing(monkeypatch, parts, 8) == []
    for length in (0, 1, 3, 7):
        assert len(missing(monkeypatch, parts, length)) == min(256, 512 // (1 + length))


@pytest.mark.parametrize("lengths", [None, (0, 1, 3, 7)])
def test_with_adaptive_verification_the_target_has_graphs_for_every_length(
    monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, ...] | None
) -> None:
    """For any mix of lengths. Named ones are still the only ones allowed, for the drafter."""
    parts = config(None if lengths is None else render_length_table(lengths))
    parts.speculative_config.enable_adaptive_verification = True
    assert captured_lengths(parts) == lengths
    for length in range(9):
        assert missing(monkeypatch, parts, length) == [], f"at length {length}"


def test_the_graphs_of_a_drafter_are_for_the_named_lengths() -> None:
    """vLLM looks for the graph of all passes of a draft; without one the passes run eagerly."""
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.worker.gpu.cudagraph_utils import BatchExecutionDescriptor
    from vllm.v1.worker.gpu.spec_decode.target_dependent_ar.cudagraph_utils import (
        SpeculatorBatchDescriptor,
        SpeculatorCudaGraphManager,
    )

    step = BatchExecutionDescriptor(CUDAGraphMode.FULL, num_tokens=4, num_reqs=4)
    drafter: Any = object.__new__(SpeculatorCudaGraphManager)
    drafter.graphs = {
        SpeculatorBatchDescriptor(**vars(step), num_speculative_tokens=length): None
        for length in (3, 7)
    }
    found = {n: drafter.specialize_spec_tokens(step, n).cg_mode.name for n in (2, 3, 4, 7)}
    assert found == {2: "NONE", 3: "FULL", 4: "NONE", 7: "FULL"}


def test_lengths_whose_sizes_interleave_lose_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """0, 1, 2, 4 and 8, named in either order: length 0 has no graph at a third of the sizes."""
    rising = config([[1, 1, 0], [2, 2, 1], [3, 3, 2], [4, 4, 4], [5, 5, 8]])
    assert len(missing(monkeypatch, rising, 0)) == 113
    falling = config(render_length_table((0, 1, 2, 4, 8)))
    assert len(missing(monkeypatch, falling, 0)) > 80


@pytest.mark.parametrize("lengths", [(0, 1, 3, 7), (0, 1, 2, 4, 8)])
def test_the_policy_simulator_finds_the_same_graphs(
    monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, ...]
) -> None:
    """The same padding, and a full graph for the same steps, up to the largest size."""
    from paceline.testing.policy_simulator.machines.graphs import GraphSizes

    parts = config(render_length_table(lengths))
    graphs = graphs_of(monkeypatch, parts)
    sizes = tuple(parts.compilation_config.cudagraph_capture_sizes)
    simulated = GraphSizes(sizes, draft_lengths=lengths)
    for length in lengths:
        each = 1 + length
        for size in range(1, min(256, MAX_CAPTURED_TOKENS // each) + 1):
            found = graphs.dispatch(size, size * each, each, 0)
            expected = (found.num_tokens, found.cg_mode.name == "FULL")
            assert simulated.find(size * each, each) == expected, (size, length)


@pytest.mark.parametrize(
    ("lengths", "maximum", "number"), [((0, 1, 3, 7), 8, 184), ((0, 1, 3), 4, 134), (None, 8, 44)]
)
def test_the_number_of_full_graphs(
    monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, ...] | None, maximum: int, number: int
) -> None:
    """The figures of docs/serving.md, for at most 256 requests."""
    from vllm.config.compilation import CUDAGraphMode

    table = None if lengths is None else render_length_table(lengths)
    graphs = graphs_of(monkeypatch, config(table, max_length=maximum))
    assert len(graphs._capture_descs[CUDAGraphMode.FULL]) == number


def test_the_captured_lengths_are_those_that_vllm_reads_from_the_table() -> None:
    assert captured_lengths(config(render_length_table((0, 1, 3, 7)))) == (0, 1, 3, 7)
    assert captured_lengths(config([[1, 16, 12], [17, 64, 2]])) == (0, 2, 8)
    assert captured_lengths(config(None)) is None


def test_without_full_graphs_for_one_length_no_length_is_preferred() -> None:
    from vllm.config.compilation import CUDAGraphMode

    parts = config(render_length_table((0, 1, 3, 7)))
    for mode in (CUDAGraphMode.NONE, CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL, None):
        parts.compilation_config.cudagraph_mode = mode
        assert captured_lengths(parts) is None, mode
    parts.compilation_config.cudagraph_mode = CUDAGraphMode.FULL_AND_PIECEWISE
    parts.use_v2_model_runner = False
    assert captured_lengths(parts) is None
