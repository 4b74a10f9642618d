"""Known messages in an engine's log. The lines are those of vLLM, torch and the kernel."""

from __future__ import annotations

import pytest

from paceline.operations.doctor.checks.log import messages
from paceline.operations.doctor.checks.log.patterns import LOG_PATTERNS
from paceline.operations.doctor.values import CannotJudge, Severity
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
    "log-engine-died": "(APIServer pid=9) ERROR 11-02 10:00:20 [core_client.py:564] Engine core "
    "proc EngineCore_DP0 died unexpectedly, shutting down client.",
    "log-weights-misfit": "ValueError: There is no module or parameter named 'lm_head.qweight' in "
    "LlamaForCausalLM",
    "log-no-gpu": "RuntimeError: No CUDA GPUs are available",
    "log-driver-mismatch": "Failed to initialize NVML: Driver/library version mismatch",
    "log-shared-memory-small": "node:147:147 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to "
    "extend /dev/shm/nccl-abc to 33030532 bytes, error: No space left on device (28)",
    "log-collectives-failed": "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268"
    ", unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5",
    "log-disk-full": "OSError: [Errno 28] No space left on device: '/root/.cache/huggingface/x'",
    "log-folder-not-writable": "PermissionError: [Errno 13] Permission denied: '/.cache'",
    "log-port-taken": "OSError: [Errno 98] Address already in use",
    "log-address-not-bound": "OSError: [Errno 99] Cannot assign requested address",
    "log-compiler-missing": "RuntimeError: Failed to find C compiler. Please specify via CC "
    "environment variable or set triton.knobs.build.impl.",
    "log-package-missing": "ModuleNotFoundError: No module named 'flash_attn'",
    "log-cuda-forked": "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA "
    "with multiprocessing, you must use the 'spawn' start method",
    "log-start-timed-out": "TimeoutError: Timed out waiting for engine core processes to start.",
    "log-model-gated": "Cannot access gated repo for url https://huggingface.co/org/m/resolve/main",
    "log-model-not-found": "OSError: org/typo is not a local folder and is not a valid model "
    "identifier listed on 'https://huggingface.co/models'",
    "log-hub-unreachable": "OSError: We couldn't connect to 'https://huggingface.co' to load the "
    "files, and couldn't find them in the cached files.",
    "log-weights-damaged": "safetensors_rust.SafetensorError: Error while deserializing header: "
    "header too large",
    "log-architecture-unknown": "ValueError: The checkpoint you are trying to load has model type "
    "`new` but Transformers does not recognize this architecture.",
    "log-model-code-untrusted": "ValueError: The repository org/m contains custom code which must "
    "be executed to correctly load the model.",
    "log-tokenizer-unreadable": "ValueError: Couldn't instantiate the backend tokenizer from one "
    "of: (1) a `tokenizers` library serialization file",
    "log-dtype-unsupported": "ValueError: Bfloat16 is only supported on GPUs with compute "
    "capability of at least 8.0. Your Tesla T4 GPU has compute capability 7.5.",
    "log-quantization-unsupported": "ValueError: The quantization method fp8 is not supported for "
    "the current GPU. Minimum capability: 89. Current capability: 75.",
    "log-parallelism-does-not-divide": "ValueError: Total number of attention heads (14) must be "
    "divisible by tensor parallel size (4).",
    "log-too-few-gpus": "ValueError: World size (4) is larger than the number of available GPUs (2)"
    " in this node.",
    "log-context-too-long": "Value error, User-specified max_model_len (131072) is greater than "
    "the derived max_model_len (max_position_embeddings=32768). To allow overriding this maximum, "
    "set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
    "log-batch-too-small": "ValueError: max_num_batched_tokens (2048) is smaller than "
    "max_model_len (8192).",
    "log-lora-rank": "ValueError: LoRA rank 64 is greater than max_lora_rank 16.",
    "log-argument-refused": "vllm: error: unrecognized arguments: --swap-space 4",
    "log-engine-did-not-start": "RuntimeError: Engine core initialization failed. See root cause "
    "above.",
}
MORE_LINES = (
    ("log-engine-did-not-start", "RuntimeError: Engine process failed to start. See stack trace"),
    ("log-engine-died", "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an "
     "issue. See stack trace (above) for the root cause."),
    ("log-driver-too-old", "UserWarning: NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is "
     "not compatible with the current PyTorch installation."),
    ("log-compiler-missing", "FileNotFoundError: [Errno 2] No such file or directory: 'nvcc'"),
    ("log-collectives-failed", "torch.distributed.DistNetworkError: The client socket has timed "
     "out after 600000ms while trying to connect to (10.0.0.5, 29500)."),
    ("log-model-gated", "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: "
     "https://huggingface.co/org/m/resolve/main/config.json"),
    ("log-argument-refused", "KeyError: 'invalid tool call parser: h (chose from { hermes })'"),
    ("log-engine-died", "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting"),
    ("log-argument-refused", "TypeError: Error: --enable-auto-tool-choice requires "
     "--tool-call-parser"),
    ("log-no-gpu", "ImportError: libcuda.so.1: cannot open shared object file: No such file"),
    ("log-no-gpu", "RuntimeError: Failed to infer device type, please set VLLM_LOGGING_LEVEL"),
    ("log-shared-memory-small", "RuntimeError: unable to mmap 3080 bytes from file </torch_1_2>"),
    ("log-shared-memory-small", "Bus error (core dumped)"),
    ("log-disk-full", "OSError: [Errno 122] Disk quota exceeded"),
    ("log-folder-not-writable", "OSError: [Errno 30] Read-only file system: '/root/.cache'"),
    ("log-port-taken", "[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): "
     "address already in use"),
    ("log-port-taken", "torch.distributed.DistNetworkError: The server socket has failed to listen "
     "on any local network address. port: 29500, code: -98, name: EADDRINUSE"),
    ("log-model-gated", "GatedRepoError: 403 Client Error. Access to model org/m is restricted"),
    ("log-model-not-found", "ValueError: Invalid repository ID or local directory specified: '/m'"),
    ("log-model-not-found", "RepositoryNotFoundError: 401 Client Error. Repository Not Found"),
    ("log-hub-unreachable", "requests.exceptions.ConnectionError: (HTTPSConnectionPool(host="
     "'huggingface.co', port=443): Max retries exceeded with url: /api/models/org/m)"),
    ("log-weights-damaged", "SafetensorError: incomplete metadata, file not fully covered"),
    ("log-architecture-unknown", "ValueError: Model architectures ['NewForCausalLM'] are not "
     "supported for now. Supported architectures: dict_keys(['A'])"),
    ("log-parallelism-does-not-divide", "AssertionError: 2730 is not divisible by 4"),
    ("log-quantization-unsupported", "ValueError: type fp8e4nv not supported in this architecture"),
    ("log-argument-refused", "vllm serve: error: argument --tensor-parallel-size/-tp: invalid int "
     "value: 'two'"),
    ("log-killed-for-memory", "RuntimeError: [enforce fail at alloc_cpu.cpp:117] . "
     "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes."),
    ("log-gpu-memory-taken", "ValueError: Available memory on node 0 (3.1/15.5 GiB) on startup is "
     "less than desired CPU memory utilization (0.9, 14.0 GiB)."),
)  # fmt: skip
"""Other words for the same causes."""
HEALTHY = (
    "WARNING 11-02 10:00:03 [parallel.py:746] Address already in use. Retrying with a new port.",
    "UserWarning: The given NumPy array is not writable, and PyTorch does not support this.",
    "WARNING 11-02 10:00:03 [model.py:2650] User-specified max_model_len (9) is greater than the "
    "derived max_model_len (8). VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with extreme caution.",
    "ERROR 11-02 10:00:03 [dump_input.py:72] Dumping input data for V1 LLM engine with config: "
    "model='m', trust_remote_code=True, dtype=torch.bfloat16",
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


@pytest.mark.parametrize(("name", "line"), MORE_LINES)
def test_other_words_for_a_known_cause_are_found(name: str, line: str) -> None:
    assert [one.id for one in messages.judge_log([*HEALTHY, line])] == [name]


def test_a_failed_connection_of_gpus_is_left_out_beside_its_cause() -> None:
    lines = [LINES["log-shared-memory-small"], LINES["log-collectives-failed"]]
    assert [one.id for one in messages.judge_log(lines)] == ["log-shared-memory-small"]


def test_the_unknown_cause_of_a_failed_start_is_quoted() -> None:
    lines = ["KeyError: 'layers.7.weight'", LINES["log-engine-did-not-start"]]
    (finding,) = messages.judge_log(lines)
    assert finding.evidence[0].value == "KeyError: 'layers.7.weight'"


def test_the_cause_of_an_engine_that_died_is_quoted() -> None:
    lines = ["RuntimeError: CPU Generator does not use offset", LINES["log-engine-died"]]
    (finding,) = messages.judge_log(lines)
    assert finding.evidence[0].value == "RuntimeError: CPU Generator does not use offset"


def test_an_empty_log_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="the log is empty"):
        messages.CHECK.judge(observe_vllm(log_lines=["", " "]))


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
