"""Table of the messages in engine logs whose cause and remedy are known.

The texts of vLLM's messages are those of the supported releases; the comment names the source file.
"""

from __future__ import annotations

import re

from paceline.operations.doctor.checks.log.pattern import log_pattern
from paceline.operations.doctor.checks.log.start_patterns import START_PATTERNS
from paceline.operations.doctor.values import Severity

DID_NOT_START = "log-engine-did-not-start"
ENGINE_DIED = "log-engine-died"

LOG_PATTERNS = (
    *START_PATTERNS,
    log_pattern(
        "log-out-of-memory",
        r"(CUDA|HIP|XPU) out of memory|torch\.(cuda\.)?OutOfMemoryError|"
        r"CUBLAS_STATUS_ALLOC_FAILED",
        "The GPU ran out of memory.",
        "Weights, KV cache, CUDA graphs and activations together need more than the GPU has.",
        "Set gpu_memory_utilization to 0.85 to 0.90, capture fewer CUDA graphs, and shorten "
        "max_model_len or max_num_batched_tokens",
        "gpu_memory_utilization",
        "cudagraph_capture_sizes",
        "max_model_len",
    ),
    log_pattern(
        "log-killed-for-memory",
        r"oom-?kill|Out of memory: Killed process|\bMemoryError\b|std::bad_alloc|"
        r"DefaultCPUAllocator: (can't|not enough)|\[Errno 12\]",
        "A process was ended for lack of main memory.",
        "The engine needs more main memory than the machine or its container has.",
        "Raise the memory limit, or lower the KV cache on a CPU and max_num_seqs",
        "resources.limits.memory",
        "engine.kv_cache_bytes",
    ),
    log_pattern(
        "log-no-memory-for-kv-cache",  # v1/core/kv_cache_utils.py
        r"No available memory for the cache blocks",
        "The weights leave no memory for the KV cache.",
        "The model fits, but gpu_memory_utilization leaves nothing beside it.",
        "Raise gpu_memory_utilization up to 0.90, quantize the weights, or use more GPUs "
        "(paceline plan computes what fits)",
        "gpu_memory_utilization",
        "quantization",
        "tensor_parallel_size",
    ),
    log_pattern(
        "log-context-does-not-fit",  # v1/core/kv_cache_utils.py
        r"To serve at least one request with the model.?s? max seq len.*KV\s*cache is needed",
        "One request of the longest context does not fit into the KV cache.",
        "max_model_len is longer than the memory that is left for the KV cache.",
        "Lower max_model_len to the length that the message names, or quantize the KV cache",
        "max_model_len",
        "kv_cache_dtype",
        "gpu_memory_utilization",
    ),
    log_pattern(
        "log-gpu-memory-taken",  # v1/worker/utils.py, cpu_worker.py
        r"is less than desired [CG]PU memory utilization",
        "Other processes hold memory of the device.",
        "At the start less memory was free than gpu_memory_utilization asks for.",
        "End the other process, or lower gpu_memory_utilization to what is free",
        "gpu_memory_utilization",
    ),
    log_pattern(
        "log-driver-too-old",
        r"CUDA driver version is insufficient|no kernel image is available for execution|"
        r"The NVIDIA driver on your system is too old|unsupported display driver|"
        r"is not compatible with the current PyTorch installation|Unsupported gpu architecture",
        "The driver or the GPU does not fit the CUDA build.",
        "The image was built for a newer driver, or without kernels for this GPU.",
        "Use an image of the CUDA version that nvidia-smi shows, or update the driver",
        "image",
    ),
    log_pattern(
        "log-broken-install",
        r"undefined symbol:|ImportError: lib(?!cuda\.)[\w.+-]+\.so|"
        r"cannot import name .* from '(vllm|torch|transformers)",
        "Packages of the installation do not fit together.",
        "vLLM, torch or transformers were replaced by a version that vLLM was not built with.",
        "Install from one lock file or use the image; paceline[cuda] names the versions that fit",
        "image",
        "requirements/runtime.lock",
    ),
    log_pattern(
        "log-kernels-missing",  # platforms/cpu.py, cuda.py; torch/_ops.py
        r"Failed to import from vllm\._C(_AVX2|_AVX512|_stable_libtorch)?:|"
        r"'_OpNamespace' '_C\w*' object has no attribute",
        "vLLM's compiled kernels, or some of them, are not loaded.",
        "The build has no kernels for this machine's instruction set or GPU, or they do not fit "
        "its torch.",
        "Use the image or wheel for this hardware, with the torch that it was built with; on a CPU "
        "the message names the instruction set",
        "image",
    ),
    log_pattern(
        "log-kernel-unexpected",  # Paceline's own message (engine/compat/linear_kernels.py)
        r"Kernels: the linear layers run .*, expected ",
        "The linear layers run another kernel than the table of number formats names.",
        "vLLM chose another kernel for this model, its shapes, or its arguments.",
        "Measure it (paceline bench compare), and read why in the lines before the message",
        "engine.vllm_args",
        severity=Severity.WARNING,
    ),
    log_pattern(
        "log-quantization-without-effect",  # the same file
        r"Kernels: the quantization method is .* linear layers are unquantized",
        "The quantization has no effect: all linear layers are unquantized.",
        "vLLM runs this format for other layers only, and loads the rest without a warning.",
        "Serve a folder made by paceline quantize",
        "quantization",
        severity=Severity.WARNING,
    ),
    log_pattern(
        "log-block-size-slow",  # platforms/cpu.py
        r"CPU backend prefers block_size is multiples of 32",
        "The KV cache has blocks that the fast attention kernels of a CPU do not take.",
        "Their size is no multiple of 32, so vLLM computes attention with a plain kernel.",
        "Leave block_size out, or set it to 128",
        "block_size",
        severity=Severity.WARNING,
    ),
    log_pattern(
        "log-vocabularies-differ",  # config/speculative.py
        r"Target and draft model should have the same vocabulary size",
        "The draft model has another vocabulary than the target.",
        "Draft tokens of another vocabulary mean other text.",
        "Draft with a model of the same family (compatibility/draft_pairs.json lists known pairs)",
        "speculative_config.model",
        "engine.draft",
    ),
    log_pattern(
        "log-all-reduce-slow",  # distributed/device_communicators/custom_all_reduce.py
        r"Custom allreduce is disabled because|Custom collectives are disabled because",
        "Tensor parallelism runs over GPUs without NVLink or peer access.",
        "Every layer exchanges its result over PCIe or the network.",
        "Use a smaller tensor_parallel_size, pipeline parallelism between nodes, or quantize so "
        "that the model fits one GPU",
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "quantization",
        severity=Severity.WARNING,
    ),
    log_pattern(
        "log-length-table-ignored",  # config/vllm.py
        r"not supported with data parallelism\b.*Disabling num_speculative_tokens_per_batch_size",
        "vLLM ignores the table of draft lengths because of data parallelism.",
        "Ranks that chose different lengths would deadlock (vllm #45963).",
        "Serve replicas of one rank each",
        "data_parallel_size",
        severity=Severity.WARNING,
    ),
    log_pattern(
        "log-length-table-unsupported",  # config/vllm.py, since release 0.33
        r"speculative method on Model Runner V1\b.*Disabling num_speculative_tokens_per_batch_size",
        "vLLM ignores the table of draft lengths because of the speculative method.",
        "Under Model Runner V1 this method's drafter does not follow a length that changes (the "
        "message names the method), so vLLM drafts the fixed number of tokens at every load.",
        "Choose a method that follows it (ngram, draft_model, eagle, eagle3, mtp, dflash), or "
        "serve with AdaptiveScheduler, which trims the drafts of the other methods itself",
        "speculative_config.method",
        severity=Severity.WARNING,
    ),
    log_pattern(
        "log-hooks-unfit",  # Paceline's own message, of each part that stays off
        r"because this vLLM does not fit its hooks",
        "Parts of Paceline are off in this engine.",
        "The installed vLLM differs at the places that these parts extend; the message names them.",
        "Use a release of vLLM that Paceline knows (docs/vllm-hooks.md)",
        "image",
        "requirements/runtime.lock",
        severity=Severity.WARNING,
    ),
    log_pattern(
        "log-descriptors-used-up",
        # vLLM quotes the error where it cannot raise a limit (system_utils.py); none was reached.
        r"^(?!.*failed to automatically increase).*(Too many open files|\bEMFILE\b)",
        "The process reached its limit on open files.",
        "Every connection takes a file descriptor; further ones are refused.",
        "Raise the limit to 65535",
        "ulimit -n",
        "LimitNOFILE",
    ),
    log_pattern(
        "log-compiling-failed",
        r"CppCompileError|BackendCompilerFailed|\bInductorError\b",
        "The model could not be compiled.",
        "The compiler that torch.compile calls failed: it was ended for lack of memory, its files "
        "are incomplete, or it is too old.",
        "Read the compiler's message in the log; serve without compiling meanwhile: "
        "engine.compile: false, or --enforce-eager for vLLM",
        "engine.compile",
        "enforce_eager",
    ),
    log_pattern(
        DID_NOT_START,  # v1/engine/utils.py
        r"Engine core initialization failed|Engine ?(Core|process) failed to start",
        "The engine core did not start.",
        "The first exception since the last start is the cause.",
        "Fix that one; if another finding of this diagnosis names a message of the log, it is "
        "likely the cause",
    ),
    log_pattern(
        ENGINE_DIED,  # v1/engine/core_client.py, exceptions.py
        r"(Engine core|Worker)\w* ?proc.{0,80}died unexpectedly|"
        r"EngineCore encountered (an issue|a fatal error)",
        "The engine core ended while it served.",
        "The first exception since the last start is the cause; without one, the operating system "
        "ended the process, as for lack of main memory.",
        "If another finding of this diagnosis names a message of the log, it is likely the cause; "
        "else read the kernel's log (dmesg) for ended processes",
        unless=(DID_NOT_START,),
    ),
)

ILLEGAL_ACCESS = log_pattern(
    "log-illegal-memory-access",
    r"illegal memory access",
    "The GPU reported an illegal memory access.",
    "A kernel read outside its memory: a defect of a kernel, or of driver and CUDA together.",
    "Find the feature: start with enforce_eager, without speculation, with kv_cache_dtype auto; "
    "check driver and CUDA versions",
    "enforce_eager",
    "kv_cache_dtype",
    "speculative_config",
)

FP8_KV_WITH_DRAFT = log_pattern(
    "log-fp8-kv-with-draft",
    r"illegal memory access",
    "The GPU reported an illegal memory access; the log shows an FP8 KV cache and a draft model.",
    "A draft of another family has another head size, and FP8 kernels for it read outside the "
    "cache.",
    "Draft with a model of the same family, or set kv_cache_dtype to auto for both; check driver "
    "and CUDA versions",
    "kv_cache_dtype",
    "speculative_config.model",
)

FP8_KV = re.compile(r"kv[_-]cache[_-]dtype\W{1,4}(torch\.)?fp8", re.IGNORECASE)
DRAFT_MODEL = re.compile(r"SpeculativeConfig\(|speculative[_-]config\W{1,4}\{", re.IGNORECASE)
"""As vLLM logs its configuration, and as the flag appears in a command line."""
