"""The three tiers as data: what each has by default, and what it gains later."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.operations.deploy.values import DeployError, GpuNode


@dataclass(frozen=True, slots=True)
class Tier:
    """Defaults of a tier; options of the command replace them."""

    name: str
    summary: str
    model: str
    gpu: str
    """A name of the planner's catalogue."""
    tensor_parallel: int
    gateways: int
    """0: one pod is gateway and engine."""
    replicas: int
    max_replicas: int
    has_long_pool: bool = False
    """Whether a second pool serves long contexts under a model id of its own."""
    later: tuple[str, ...] = ()
    """What the tier is meant to have and Paceline cannot do yet, as comments of the manifests."""


_LIMITS_IN_REDIS = (
    "Redis: rate limits and budgets shared by the gateways, and the semantic cache. Each gateway "
    "has its own queue and no rate limits today"
)

TIERS = (
    Tier(
        name="startup",
        summary="One GPU, one pod with gateway and engine, a quantized model with n-gram drafts.",
        model="Qwen/Qwen3-8B-FP8",
        gpu="l4",
        tensor_parallel=1,
        gateways=0,
        replicas=1,
        max_replicas=1,
    ),
    Tier(
        name="mid-market",
        summary="Two gateways, a tensor-parallel pool that scales with the load.",
        model="Qwen/Qwen3-32B-FP8",
        gpu="l40s",
        tensor_parallel=2,
        gateways=2,
        replicas=2,
        max_replicas=4,
        later=(
            _LIMITS_IN_REDIS,
            "A/B split between an INT8 and an INT4 variant of the model, with a verdict",
        ),
    ),
    Tier(
        name="enterprise",
        summary="Three gateways, pools for short and long contexts.",
        model="meta-llama/Llama-3.1-70B-Instruct",
        gpu="h100",
        tensor_parallel=4,
        gateways=3,
        replicas=4,
        max_replicas=8,
        has_long_pool=True,
        later=(
            _LIMITS_IN_REDIS,
            "Two or more regions with fail-over. Until then, render and apply one deployment per "
            "region, and let your DNS or load balancer choose the region by GET /ready",
            "Routing of long prompts to the long pool by itself. Until then, clients choose it by "
            "its model id",
            "Canary with automatic roll-back",
        ),
    ),
)
"""In ascending order of size."""

GPU_NODES = {
    # Product labels as NVIDIA's GPU feature discovery derives them from the product names that the
    # driver reports. Processors and memory are what the smallest common cloud machine of this GPU
    # has per GPU, less a share for the system: g4dn.xlarge, g5.xlarge, g6.xlarge and g6e.xlarge
    # have 4 processors and 16 to 32 GiB; machines of 8 large GPUs have 12 to 24 processors and 128
    # to 250 GiB for each.
    "t4": GpuNode(("Tesla-T4",), 3, 11),
    "a10g": GpuNode(("NVIDIA-A10G",), 3, 11),
    "l4": GpuNode(("NVIDIA-L4",), 3, 11),
    "l40s": GpuNode(("NVIDIA-L40S",), 3, 24),
    "rtx-pro-6000-server": GpuNode(("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",), 8, 64),
    "a100-40gb": GpuNode(("NVIDIA-A100-SXM4-40GB",), 10, 96),
    "a100": GpuNode(("NVIDIA-A100-SXM4-80GB",), 10, 96),
    "a100-pcie": GpuNode(("NVIDIA-A100-80GB-PCIe",), 10, 96),
    "h100": GpuNode(("NVIDIA-H100-80GB-HBM3",), 12, 128),
    "h100-pcie": GpuNode(("NVIDIA-H100-PCIe",), 12, 96),
    "h200": GpuNode(("NVIDIA-H200",), 12, 128),
    "b200": GpuNode(("NVIDIA-B200",), 12, 128),
}


def find_tier(name: str) -> Tier:
    """Return the tier of this name; raises `DeployError`."""
    for tier in TIERS:
        if tier.name == name:
            return tier
    raise DeployError(f"--tier {name!r}; allowed: {', '.join(tier.name for tier in TIERS)}")


def find_node(gpu: str, products: tuple[str, ...]) -> GpuNode:
    """Return the nodes of a GPU of the catalogue; `products` replaces their labels.

    Raises `DeployError` where neither the table nor the user names a label.
    """
    known = GPU_NODES.get(gpu)
    if known is None and not products:
        raise DeployError(
            f"the node label of {gpu} is not known; set --gpu-product to the value of "
            "nvidia.com/gpu.product on your nodes (kubectl get nodes -L nvidia.com/gpu.product)"
        )
    size = known or GPU_NODES["l4"]  # the least, which fits any node
    return GpuNode(products or size.products, size.cpus_per_gpu, size.memory_gib_per_gpu)
