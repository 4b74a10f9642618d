"""Messages of engines that did not start, for the reasons that users report most.

What the machine or its container lacks comes first, then what does not fit the model, then what was
given wrongly. The texts are those of vLLM, torch, NCCL, huggingface_hub and the operating system.
"""

from __future__ import annotations

from paceline.operations.doctor.checks.log.pattern import LogPattern, log_pattern

START_PATTERNS: tuple[LogPattern, ...] = (
    log_pattern(
        "log-no-gpu",
        r"No (CUDA|HIP) GPUs are available|Found no NVIDIA driver|Failed to infer device type|"
        r"libcuda\.so\.1: cannot open|no CUDA-capable device is detected|"
        r"NVML(Error_| )(LibraryNotFound|DriverNotLoaded|Shared Library Not Found)|"
        r"not compiled with CUDA enabled",
        "The process sees no GPU.",
        "The container was started without GPUs, the driver is not installed, "
        "CUDA_VISIBLE_DEVICES hides them, or the build of torch is for another device.",
        "Start the container with --gpus all, or request nvidia.com/gpu in the pod; check "
        "nvidia-smi inside of it",
        "resources.limits.nvidia.com/gpu",
        "CUDA_VISIBLE_DEVICES",
        "image",
    ),
    log_pattern(
        "log-driver-mismatch",
        r"Driver/library version mismatch|system not yet initialized|forward compatibility was "
        r"attempted",
        "The parts of the NVIDIA driver do not fit together, or a service of it does not run.",
        "The driver was updated without a restart, or the fabric manager of GPUs with NVSwitch is "
        "not running.",
        "Restart the machine or reload the driver; with NVSwitch start nvidia-fabricmanager in the "
        "driver's version",
        "image",
    ),
    log_pattern(
        "log-shared-memory-small",
        r"(fail|error|unable|cannot|no space).{0,120}/dev/shm|/dev/shm.{0,160}(fail|No space left)|"
        r"insufficient shared memory|unable to (mmap|open|allocate) .{0,80}(shared memory|/torch_)|"
        r"\bBus error\b",
        "The shared memory of the container is too small.",
        "Processes of one engine exchange data in /dev/shm, which a container has 64 MiB of by "
        "default.",
        "Start the container with --ipc=host or --shm-size=16g; in Kubernetes mount an emptyDir "
        "with medium: Memory at /dev/shm",
        "--shm-size",
        "--ipc",
        "volumes.emptyDir.medium",
    ),
    log_pattern(
        "log-collectives-failed",
        r"NCCL error in|ncclSystemError|ncclInternalError|ncclRemoteError|"
        r"no socket interface found|client socket has (timed out|failed)|DistNetworkError|"
        r"Timed out initializing process group",
        "The GPUs of one engine could not be connected.",
        "NCCL found no usable way between the processes: shared memory, the network interface, or "
        "access between GPUs.",
        "Start with NCCL_DEBUG=INFO and read the line with NCCL WARN; set NCCL_SOCKET_IFNAME to "
        "the interface between nodes, and try NCCL_P2P_DISABLE=1 on one node",
        "NCCL_SOCKET_IFNAME",
        "NCCL_P2P_DISABLE",
        unless=(
            "log-shared-memory-small",
            "log-out-of-memory",
            "log-too-few-gpus",
            "log-port-taken",
        ),
    ),
    log_pattern(
        "log-disk-full",
        r"^(?!.*(/dev/shm|shmutils|\bshm\b)).*(No space left on device|Disk quota exceeded)",
        "The disk is full.",
        "Weights, the compiler's cache or the log do not fit on the volume that they are written "
        "to.",
        "Free space, or put the cache of models on a larger volume (HF_HOME, VLLM_CACHE_ROOT)",
        "HF_HOME",
        "VLLM_CACHE_ROOT",
        "resources.requests.ephemeral-storage",
    ),
    log_pattern(
        "log-folder-not-writable",
        r"(Permission denied|Read-only file system): ?['\"]?/",
        "A folder cannot be written to or read.",
        "The process runs as another user than the owner of the folder, or on a read-only file "
        "system, as containers that do not run as root.",
        "Mount a writable volume, and point HF_HOME, VLLM_CACHE_ROOT and HOME into it",
        "HF_HOME",
        "VLLM_CACHE_ROOT",
        "securityContext.fsGroup",
    ),
    log_pattern(
        "log-port-taken",
        r"^(?!.*Retrying with a new port).*(Address already in use|EADDRINUSE|"
        r"address is already used)",
        "Another process listens on the port.",
        "An earlier server still runs, or another service has the address in use.",
        "End the other process (ss -ltnp names it), or choose another port",
        "--port",
        "server.port",
    ),
    log_pattern(
        "log-address-not-bound",
        r"Cannot assign requested address|EADDRNOTAVAIL|error while attempting to bind on "
        r"address.{0,80}(permission denied|cannot assign)",
        "The server cannot listen on the address.",
        "The host is no address of this machine or container, or the port is below 1024 and the "
        "process is not root.",
        "Listen on 0.0.0.0 or on an address that ip addr shows, with a port from 1024 on",
        "--host",
        "--port",
    ),
    log_pattern(
        "log-compiler-missing",
        r"Failed to find C compiler|Could not find nvcc|nvcc: (command )?not found|"
        r"Python\.h: No such file|Ninja is required|ninja: not found|"
        r"No such file or directory: '(nvcc|ninja|gcc|cc|c\+\+|g\+\+)'|"
        r"CUDA_HOME environment variable is not set",
        "A compiler that kernels are built with at the start is missing.",
        "Triton needs a C compiler and Python's headers, FlashInfer nvcc and ninja.",
        "Install gcc, python3-dev, ninja and the CUDA toolkit, or use the image",
        "image",
        "CC",
        "CUDA_HOME",
    ),
    log_pattern(
        "log-package-missing",
        r"ModuleNotFoundError: No module named",
        "A Python package is missing.",
        "The installation has not the extra that the model or the flag needs.",
        "Install the package that the message names, in a version that vLLM allows, or use the "
        "image",
        "image",
        "requirements/runtime.lock",
    ),
    log_pattern(
        "log-cuda-forked",
        r"Cannot re-initialize CUDA in forked subprocess",
        "A process that had used CUDA was forked.",
        "Code before vLLM's start touched the GPU, and the workers were forked from it.",
        "Set VLLM_WORKER_MULTIPROC_METHOD=spawn, and start vLLM under if __name__ == '__main__'",
        "VLLM_WORKER_MULTIPROC_METHOD",
    ),
    log_pattern(
        "log-start-timed-out",
        r"Timed out waiting for (new )?engine core processes|"
        r"Did not receive response from front-end process",
        "The engine did not start in the time allowed.",
        "Loading from a slow disk or network, or compiling, took longer than the limit; or a "
        "process of the engine ended silently.",
        "Raise VLLM_ENGINE_READY_TIMEOUT_S and the start-up probe, put the weights on a local "
        "disk, and look for a process that was ended for lack of memory",
        "VLLM_ENGINE_READY_TIMEOUT_S",
        "startupProbe",
    ),
    log_pattern(
        "log-model-gated",
        r"GatedRepoError|access (a )?gated repo|Access to model .{1,200} is restricted|"
        r"LocalTokenNotFoundError|Invalid credentials in Authorization header|"
        r"Invalid user token|(Unauthorized|Forbidden) for url: https://(huggingface|hf)\.co",
        "The repository of the model is gated, or the token is missing or wrong.",
        "Hugging Face gives its files only to accounts that accepted the licence, by their token.",
        "Accept the licence on the model's page, and set HF_TOKEN to a token of that account with "
        "read access",
        "HF_TOKEN",
    ),
    log_pattern(
        "log-model-not-found",
        r"is not a (valid model identifier listed|local folder and is not)|"
        r"Repository ?Not ?Found|RevisionNotFoundError|Invalid repository ID or local directory|"
        r"does not appear to have a file named|Entry Not Found for url|Repo id must|"
        r"Cannot find any model weights|HFValidationError|Can't find 'adapter_config",
        "The model, or one of its files, was not found.",
        "The name or the path is wrong, the folder is not mounted, a file is missing in it, or "
        "the repository is private.",
        "Check the name and that the folder has config.json and the weights inside of the "
        "container; for a private repository set HF_TOKEN",
        "--model",
        "engine.model",
        "HF_TOKEN",
        unless=("log-model-gated", "log-hub-unreachable"),
    ),
    log_pattern(
        "log-hub-unreachable",
        r"(couldn't|could not|can't|cannot) connect to '?https://|LocalEntryNotFoundError|"
        r"OfflineModeIsEnabled|outgoing traffic has been disabled|"
        r"(huggingface|hf\.co|hf-mirror|modelscope).{0,200}(Max retries|name resolution|"
        r"NameResolution|Name or service)|"
        r"(429 Client Error|Too Many Requests).{0,120}(huggingface|hf\.co)",
        "The files of the model could not be downloaded.",
        "The machine cannot reach Hugging Face, is in offline mode without the files in its "
        "cache, or asked too often.",
        "Download the model where the network is (hf download), mount the folder, and give its "
        "path; or set HTTPS_PROXY or HF_ENDPOINT",
        "HF_HOME",
        "HF_ENDPOINT",
        "HTTPS_PROXY",
    ),
    log_pattern(
        "log-weights-damaged",
        r"SafetensorError|Error while deserializing header|HeaderTooLarge|InvalidHeader|"
        r"MetadataIncompleteBuffer|PytorchStreamReader failed|invalid load key",
        "A file of weights is damaged or incomplete.",
        "The download was cut off, or the file is a pointer of Git LFS in place of the weights.",
        "Delete the file and download it again (hf download, or git lfs pull)",
        "--model",
        "engine.model",
    ),
    log_pattern(
        "log-weights-misfit",
        r"no module or parameter named|weights were not initialized from checkpoint|"
        r"size mismatch for |Attempted to load weight \(",
        "The weights do not fit the architecture that config.json names.",
        "The files are of another model, of a quantization that config.json does not name, or of a "
        "newer version than the installed vLLM knows.",
        "Check that config.json and the weights are of one model and complete, and use a release "
        "of vLLM that lists it",
        "--model",
        "engine.model",
        "image",
    ),
    log_pattern(
        "log-architecture-unknown",
        r"does not recognize this architecture|Model architectures .{1,200} are not supported|"
        r"Model architectures .{1,200} failed to be inspected|has no vLLM implementation and|"
        r"Unrecognized model in|Cannot find model module",
        "vLLM or transformers does not know the architecture of the model.",
        "The model is newer than the installed vLLM or transformers, or no text model.",
        "Use a release of vLLM that lists the architecture, with the transformers that it was "
        "built with (the image)",
        "image",
        "transformers",
    ),
    log_pattern(
        "log-model-code-untrusted",
        r"contains custom code which must be executed|"
        r"(set|pass|option|argument)\W.{0,40}trust_remote_code=True|"
        r"requires you to execute the \w+ file",
        "The repository of the model has code of its own, which was not allowed to run.",
        "Python files of the repository define the model or its tokenizer.",
        "Read that code, then pass --trust-remote-code; or use a model that vLLM knows",
        "--trust-remote-code",
    ),
    log_pattern(
        "log-tokenizer-unreadable",
        r"Couldn't instantiate the backend tokenizer|untagged enum ModelWrapper|"
        r"Tokenizer class \S+ does not exist|Can't load tokenizer for",
        "The tokenizer cannot be read.",
        "Its files are missing or of a newer version than the installed tokenizers and "
        "transformers, or sentencepiece or tiktoken is missing.",
        "Check tokenizer.json in the model's folder, install sentencepiece or tiktoken, or use "
        "the image; --tokenizer names another folder",
        "--tokenizer",
        "image",
    ),
    log_pattern(
        "log-dtype-unsupported",  # platforms/cuda.py, config/model.py, config/vllm.py
        r"Bfloat16 is only supported on GPUs|does not support float16\. Reason|"
        r"float(16|32) is not supported for quantization method",
        "The GPU, the model or its quantization cannot compute in this dtype.",
        "bfloat16 needs compute capability 8.0; some quantizations take float16 only, and some "
        "models bfloat16 only.",
        "Set dtype to the one that the message names: float16 (--dtype half) on older GPUs",
        "dtype",
    ),
    log_pattern(
        "log-quantization-unsupported",  # config/model.py, config/vllm.py
        r"quantization method .{1,80} is not supported for the current GPU|"
        r"Unknown quantization method|does not match the quantization method specified|"
        r"fp8e4(nv|b15) not supported in this architecture",
        "The quantization does not fit the GPU, the model or vLLM.",
        "The format needs a newer GPU (FP8: compute capability 8.9), or --quantization names "
        "another format than the checkpoint has.",
        "Leave --quantization out, so that the checkpoint decides; on older GPUs use AWQ or GPTQ "
        "(paceline plan names what fits)",
        "quantization",
        "kv_cache_dtype",
    ),
    log_pattern(
        "log-parallelism-does-not-divide",  # config/model.py, distributed/utils.py
        r"must be divisible by tensor parallel size|\d+ is not divisible by \d+|"
        r"size_per_partition = \d+ is not divisible|not aligned with the quantized weight shape|"
        r"Pipeline parallelism is not supported for this model",
        "The model cannot be split over that many GPUs.",
        "Attention heads, layers of the network and groups of quantized weights are divided "
        "evenly by tensor parallelism.",
        "Set tensor_parallel_size to a divisor of the number of heads that the message names, and "
        "use further GPUs for replicas or pipeline_parallel_size",
        "tensor_parallel_size",
        "pipeline_parallel_size",
    ),
    log_pattern(
        "log-too-few-gpus",  # config/parallel.py
        r"World size \(\d+\) is larger than the number of|"
        r"number of required GPUs exceeds|invalid device ordinal|Current node has no GPU",
        "More GPUs are asked for than the process sees.",
        "tensor_parallel_size times pipeline_parallel_size is more than the visible GPUs.",
        "Lower tensor_parallel_size, or give the container more GPUs (CUDA_VISIBLE_DEVICES, "
        "nvidia.com/gpu)",
        "tensor_parallel_size",
        "CUDA_VISIBLE_DEVICES",
        "resources.limits.nvidia.com/gpu",
    ),
    log_pattern(
        "log-context-too-long",  # config/model.py
        r"greater than the derived max_model_len.*To allow overriding",
        "max_model_len is longer than the context that the model was made for.",
        "The model's config.json allows fewer positions.",
        "Lower max_model_len to the length that the message names, or set rope scaling as the "
        "model's card describes (--hf-overrides)",
        "max_model_len",
        "hf_overrides",
    ),
    log_pattern(
        "log-batch-too-small",  # config/scheduler.py
        r"max_num_batched_tokens \(\d+\) (is smaller than max_model_len|must be greater)",
        "max_num_batched_tokens is too small.",
        "Without chunked prefill a whole prompt is one step, and a step has a token of every "
        "request at least.",
        "Raise max_num_batched_tokens, lower max_model_len or max_num_seqs, or leave chunked "
        "prefill on",
        "max_num_batched_tokens",
        "max_model_len",
        "enable_chunked_prefill",
    ),
    log_pattern(
        "log-lora-rank",
        r"LoRA rank \d+ is greater than max_lora_rank",
        "A LoRA adapter has a higher rank than the engine allows.",
        "max_lora_rank sizes the buffers of all adapters at the start.",
        "Raise max_lora_rank to the rank that the message names",
        "max_lora_rank",
    ),
    log_pattern(
        "log-argument-refused",
        r"error: (unrecognized arguments:|argument .{1,80}: (invalid|expected)|"
        r"the following arguments are required)|invalid (tool call|reasoning) parser|"
        r"requires --tool-call-parser",
        "vLLM does not know an argument, or its value.",
        "The flag is misspelt, of another release, or its value is not allowed.",
        "Compare with vllm serve --help=all of the installed release",
        "engine.vllm_args",
    ),
)
