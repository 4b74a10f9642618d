"""Known messages in an engine's log. The lines are those of vLLM, torch and the kernel."""

from __future__ import annotations

import pytest

from paceline.doctor.checks.log import messages
from paceline.doctor.checks.log.patterns import LOG_PATTERNS
from paceline.doctor.values import CannotJudge, Severity
from unit.doctor.simulated import observe_vllm

LINES = {
    "log-out-of-memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "log-killed-for-memory": "Out of memory: Killed process 4711 (VLLM::EngineCor)",
    "log-no-memory-for-kv-cache": "ValueError: No available memory for the cache blocks. Try "
    "increasing `gpu_memory_utilization` when initializing the engine",
    "log-context-does-not-fit": "ValueError: To serve at least one request with the model's max "
    "seq len (131072), (16.0 GiB KV cache is needed, which is larger than the available KV cache "
    "memory (9.1 GiB).",
    "log-gpu-memory-taken": "ValueError: Free memory on device cuda:0 (31.2/79.1 GiB) on startup "
    "is less than desired GPU memory utilization (0.9, 71.2 GiB).",
    "log-driver-too-old": "RuntimeError: CUDA error: no kernel image is available for execution on "
    "the device",
    "log-broken-install": "ImportError: /opt/vllm/_C.abi3.so: undefined symbol: _ZN3c106detail",
    "log-kernels-missing": "WARNING 11-23 12:00:00 [cpu.py:652] Failed to import from "
    "vllm._C_AVX512: ImportError('/opt/vllm/_C_AVX512.abi3.so: cannot open shared object file')",
    "log-kernel-unexpected": "WARNING 11-23 12:00:00 [linear_kernels.py:54] Kernels: the linear "
    "layers run UnquantizedLinearMethod in 24 layers, expected CPUInt8ScaledMMLinearKernel; the "
    "speed may differ from what was measured for this format",
    "log-quantization-without-effect": "WARNING 11-23 12:00:00 [linear_kernels.py:50] Kernels: the "
    "quantization method is compressed-tensors, but all 24 linear layers are unquantized "
    "(UnquantizedLinearMethod in 24 layers): the checkpoint's quantization_config applies to no "
    "weights",
    "log-block-size-slow": "WARNING 11-23 12:00:00 [cpu.py:296] CPU backend prefers block_size is "
    "multiples of 32, otherwise the performance is not optimized.",
    "log-compiling-failed": "ERROR 11-23 12:00:00 [core.py:1130] "
    "torch._inductor.exc.InductorError: CppCompileError: C++ compile error",
    "log-vocabularies-differ": "ValueError: Target and draft model should have the same vocabulary "
    "size. Target model vocab_size=152064.",
    "log-all-reduce-slow": "WARNING Custom allreduce is disabled because it's not supported on "
    "more than two PCIe-only GPUs.",
    "log-length-table-ignored": "WARNING 11-23 12:00:00 [vllm.py:1120] Dynamic speculative "
    "decoding is not supported with data parallelism because data-parallel ranks can select "
    "different speculative-token counts, causing DP divergence and deadlocks. Disabling "
    "num_speculative_tokens_per_batch_size and falling back to static num_speculative_tokens=8.",
    "log-length-table-unsupported": "WARNING 11-23 12:00:00 [vllm.py:1100] Dynamic speculative "
    "decoding is not supported with the 'suffix' speculative method on Model Runner V1. Disabling "
    "num_speculative_tokens_per_batch_size and falling back to static num_speculative_tokens=8.",
    "log-hooks-unfit": "ERROR 11-23 12:00:00 [governor_start.py:63] Governor: off, because this "
    "vLLM does not fit its hooks: request_attributes: does not mention num_stale_output_tokens.",
    "log-descriptors-used-up": "OSError: [Errno 24] Too many open files",
    "log-engine-did-not-start": "RuntimeError: Engine core initialization failed. See root cause "
    "above.",
}
HEALTHY = (
    "INFO 11-23 12:00:00 [utils.py:233] non-default args: {'model': 'm', 'kv_cache_dtype': 'fp8'}",
    "INFO 11-23 12:00:05 [core.py:93] Initializing a V1 LLM engine with config: model='m', "
    "speculative_config=SpeculativeConfig(method='draft_model', num_spec_tokens=4), "
    "kv_cache_dtype=fp8, device_config=cuda",
    "WARNING 11-28 07:27:11 [system_utils.py:255] Found ulimit of 20000 and failed to "
    "automatically increase with error current limit exceeds maximum limit. This can cause fd "
    "limit errors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit",
    "INFO 11-23 12:00:31 [kv_cache_utils.py:864] GPU KV cache size: 512,000 tokens",
    "INFO 11-23 12:00:40 [loggers.py:123] Engine 000: Avg prompt throughput: 12.0 tokens/s",
)


@pytest.mark.parametrize("name", [pattern.id for pattern in LOG_PATTERNS])
def test_a_known_message_is_found(name: str) -> None:
    """Only its own pattern matches, and the finding quotes it."""
    (finding,) = messages.judge_log([*HEALTHY, LINES[name]])
    assert finding.id == name
    assert finding.evidence[0].value == LINES[name][:200]


def test_a_healthy_log_has_no_finding() -> None:
    assert messages.judge_log(HEALTHY) == []


def test_an_illegal_access_with_an_fp8_cache_and_a_draft_has_its_own_cause() -> None:
    access = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    (finding,) = messages.judge_log([*HEALTHY, access])
    assert finding.id == "log-fp8-kv-with-draft"
    (finding,) = messages.judge_log([access])
    assert finding.id == "log-illegal-memory-access"
    assert finding.severity is Severity.CRITICAL
    (finding,) = messages.judge_log(["--kv-cache-dtype fp8", access])
    assert finding.id == "log-illegal-memory-access"


def test_a_kernel_that_the_build_lacks_is_found() -> None:
    """torch's message when vLLM calls it."""
    line = "AttributeError: '_OpNamespace' '_C' object has no attribute 'silu_and_mul'"
    (finding,) = messages.judge_log([*HEALTHY, line])
    assert (finding.id, finding.severity) == ("log-kernels-missing", Severity.CRITICAL)


def test_repeated_messages_are_one_finding() -> None:
    (finding,) = messages.judge_log([LINES["log-out-of-memory"]] * 3)
    assert finding.evidence[1].value == 3


def test_without_a_log_it_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="--log FILE"):
        messages.CHECK.judge(observe_vllm())
    assert messages.CHECK.judge(observe_vllm(log_lines=HEALTHY)) == []
