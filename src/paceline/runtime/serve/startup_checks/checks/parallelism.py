"""Checks of an engine that is spread over several GPUs or worker processes."""

from __future__ import annotations

from itertools import combinations

from paceline.runtime.serve.startup_checks.facts import StartupFacts
from paceline.runtime.serve.startup_checks.gpu_links import LINK_TEXTS, is_nvlink
from paceline.runtime.serve.startup_checks.values import (
    CannotJudge,
    Found,
    passed,
    refused,
    warning,
)

_MIB = 1024**2
_MIN_SHARED_MEMORY_BYTES = 512 * _MIB
"""Derived: vLLM 0.32 lays out 160 MiB there for its queue to the workers (ten chunks of 16 MiB,
VLLM_MQ_MAX_CHUNK_BYTES_MB) and a queue for the answers of each; NCCL has buffers of its own.
Docker's default is 64 MiB."""


def check_gpu_count(facts: StartupFacts) -> Found | None:
    """An engine without Ray needs all its GPUs on this machine. None on a CPU."""
    launch = facts.launch
    if launch is None or facts.device == "cpu":
        return None
    if not facts.gpus:
        raise CannotJudge("the GPUs of this machine could not be listed (nvidia-smi)")
    if launch.uses_ray or launch.num_nodes > 1 or launch.names_devices or launch.data_parallel > 1:
        raise CannotJudge("the GPUs are chosen by Ray, several nodes, ranks or --device-ids")
    sizes = f"tensor parallel {launch.tensor_parallel} x pipeline parallel "
    sizes += f"{launch.pipeline_parallel} needs {launch.num_devices} GPU(s)"
    num_visible = f"{len(facts.gpus)} are visible (nvidia-smi, CUDA_VISIBLE_DEVICES)"
    if launch.num_devices > len(facts.gpus):
        return refused(
            f"{sizes}, and {num_visible}. Set --tensor-parallel-size after -- to at most "
            f"{len(facts.gpus)}, or show more GPUs"
        )
    return passed(f"{sizes}; {num_visible}")


def check_split(facts: StartupFacts) -> Found | None:
    """vLLM splits heads and layers evenly. None without tensor parallelism."""
    launch = facts.launch
    if launch is None or launch.tensor_parallel == 1:
        return None
    sizes = facts.tensor_parallel_sizes
    if not sizes:
        raise CannotJudge(f"the planner does not know how {launch.model} is split")
    if launch.tensor_parallel not in sizes:
        return refused(
            f"--tensor-parallel-size is {launch.tensor_parallel}, and the heads and matrices of "
            f"{launch.model} cannot be split evenly into that many parts. Allowed: "
            f"{', '.join(map(str, sizes))}"
        )
    drafts = facts.draft_tensor_parallel_sizes
    if drafts and launch.tensor_parallel not in drafts:
        return refused(
            f"--tensor-parallel-size is {launch.tensor_parallel}, by which vLLM also splits the "
            f"draft model {launch.draft_model}, whose heads and matrices allow only "
            f"{', '.join(map(str, drafts))}. Lower the size, or use another drafter, such as "
            "--draft ngram"
        )
    return passed(f"{launch.model} can be split into {launch.tensor_parallel} parts")


def check_nvlink(facts: StartupFacts) -> Found | None:
    """Tensor parallelism exchanges data in every layer. None with one GPU per model."""
    launch = facts.launch
    if launch is None or facts.device == "cpu" or launch.tensor_parallel == 1:
        return None
    may_span_nodes = launch.num_nodes > 1 or launch.uses_ray
    if may_span_nodes and launch.tensor_parallel > len(facts.gpus) > 0:
        return warning(
            f"tensor parallel {launch.tensor_parallel} spans nodes of {len(facts.gpus)} GPUs: "
            "every layer waits for the network. Set --tensor-parallel-size to the GPUs of one "
            "node, and --pipeline-parallel-size to the number of nodes"
        )
    if facts.links is None or not facts.gpus or launch.names_devices:
        raise CannotJudge("the links between the GPUs are not known (nvidia-smi topo -m)")
    used = facts.gpus[: launch.tensor_parallel]
    pairs = list(combinations((gpu.index for gpu in used), 2))
    known = {pair: facts.links[pair] for pair in pairs if pair in facts.links}
    slow = [(pair, link) for pair, link in known.items() if not is_nvlink(link)]
    if not slow and len(known) < max(1, len(pairs)):
        raise CannotJudge("nvidia-smi topo -m does not show the links between all GPUs")
    if not slow:
        return passed(f"NVLink between all {len(used)} GPUs of the tensor-parallel group")
    (first, second), link = slow[0]
    more = f", as are {len(slow) - 1} more of the pairs" if len(slow) > 1 else ""
    return warning(
        f"tensor parallel {launch.tensor_parallel} runs over GPUs without NVLink: {first} and "
        f"{second} are connected by {LINK_TEXTS[link]} ({link}){more}, and every layer waits for "
        "that. Set --tensor-parallel-size to a smaller value, use --pipeline-parallel-size, or "
        "quantize the model so that it fits one GPU (paceline quantize)"
    )


def check_shared_memory(facts: StartupFacts) -> Found | None:
    """Workers of one engine exchange messages in /dev/shm. None with one worker."""
    launch = facts.launch
    if launch is None or launch.num_devices * launch.data_parallel == 1:
        return None
    if facts.shared_memory_bytes is None:
        raise CannotJudge("the size of /dev/shm is not known")
    size = f"/dev/shm has {facts.shared_memory_bytes // _MIB:,} MiB"
    if facts.shared_memory_bytes < _MIN_SHARED_MEMORY_BYTES:
        return warning(
            f"{size}, and the {launch.num_devices} workers of an engine exchange data there: they "
            f"may end with a bus error. Give it {_MIN_SHARED_MEMORY_BYTES // _MIB} MiB or more "
            "(--shm-size of Docker, an emptyDir of medium Memory in Kubernetes)"
        )
    return passed(size)
