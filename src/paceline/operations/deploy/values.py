"""What is deployed: a gateway, pools of engines, and the cluster that they run in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_IMAGE = re.compile(r"[a-z0-9][\w.:/@-]*", re.ASCII)
_HOST = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?")
_MODEL_ID = re.compile(r"[\w./][\w./:+-]*", re.ASCII)
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?", re.ASCII)

ServerName = Literal["vllm", "trtllm", "triton"]
"""What serves the model of a pool; also the name of the gateway's dialect for it."""

MAX_REPLICAS = 64
"""Of a pool. The gateway uses at most 256 addresses of a DNS name (docs/replicas.md)."""


class DeployError(ValueError):
    """A deployment that cannot be rendered; the message says what was given and what is allowed."""


@dataclass(frozen=True, slots=True)
class GpuNode:
    """The nodes that engines run on, and the share of one that each GPU may take."""

    products: tuple[str, ...]
    """Values of the node label `nvidia.com/gpu.product`, which NVIDIA's GPU feature discovery
    sets."""
    cpus_per_gpu: int
    memory_gib_per_gpu: int

    def __post_init__(self) -> None:
        if not self.products or not all(
            _LABEL_VALUE.fullmatch(product) for product in self.products
        ):
            raise DeployError(
                f"--gpu-product is {', '.join(self.products) or 'empty'}; give values of the node "
                "label nvidia.com/gpu.product, such as NVIDIA-L4"
            )


@dataclass(frozen=True, slots=True)
class Pool:
    """Replicas of one model on one kind of GPU."""

    name: str
    model: str
    """What the engines load: a path in the pod or a Hugging Face name."""
    served_name: str
    """The model id that clients name."""
    server_args: tuple[str, ...]
    """Of one replica, after the model: of `vllm serve` or `trtllm-serve`. Empty for Triton."""
    engine_settings: Mapping[str, Any]
    """With vLLM the same as the section `engine` of paceline.yaml, for `paceline serve`; with
    another server its settings file, as a mapping."""
    weights_bytes: int
    """Of target and draft."""
    slots: int
    """Sequences that a replica computes at once."""
    gpus: int
    """Of one pod."""
    min_replicas: int = 1
    max_replicas: int = 1
    nodes_per_replica: int = 1
    server: ServerName = "vllm"
    image: str | None = None
    """Of another server than vLLM; None for the deployment's image of the engines."""

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.name):
            raise DeployError(
                f"the pool {self.name!r} needs a name of at most 40 lower-case letters, digits and "
                "hyphens"
            )
        if not _MODEL_ID.fullmatch(self.served_name):
            raise DeployError(
                f"the model id {self.served_name!r} may have letters, digits and . _ / : + - only, "
                "and may not begin with one of the last three"
            )
        if not 1 <= self.min_replicas <= self.max_replicas <= MAX_REPLICAS:
            raise DeployError(
                f"--replicas {self.min_replicas} and --max-replicas {self.max_replicas}: both must "
                f"be from 1 to {MAX_REPLICAS}, and the first not above the second"
            )
        for name, value in (("gpus", self.gpus), ("nodes", self.nodes_per_replica)):
            if value < 1:
                raise DeployError(f"a replica of the pool {self.name} needs at least 1 of {name}")
        if self.slots < 1:
            raise DeployError(f"the pool {self.name} has no memory for a request")
        if self.server != "vllm" and self.nodes_per_replica > 1:
            raise DeployError(
                f"--pool {self.server} with --nodes-per-replica {self.nodes_per_replica}: only "
                "vLLM's pools spread a replica over several nodes; leave --pool out"
            )
        if self.image is not None and not _IMAGE.fullmatch(self.image):
            raise DeployError(
                f"--pool {self.server}={self.image}: that is no reference to an image"
            )

    @property
    def scales(self) -> bool:
        """Whether the number of replicas follows the load."""
        return self.max_replicas > self.min_replicas


@dataclass(frozen=True, slots=True)
class Backend:
    """Servers of another maker that already run in the cluster, by a DNS name."""

    dialect: str
    host: str
    port: int

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.host) or not 1 <= self.port <= 65_535:
            raise DeployError(
                f"--backend {self.dialect}={self.host}:{self.port}: give DIALECT=HOST:PORT, such "
                "as trtllm=trt.models.svc:8000"
            )


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Where Prometheus runs, and how it finds pods."""

    operator: bool
    """Whether the Prometheus Operator finds them; otherwise annotations of the pods."""
    namespace: str
    prometheus_url: str

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.namespace):
            raise DeployError(
                f"--monitoring-namespace {self.namespace!r} is no name of a namespace"
            )
        if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d+)?(/[\w./-]*)?", self.prometheus_url):
            raise DeployError(
                f"--prometheus-url {self.prometheus_url!r} is no address such as "
                "http://prometheus-operated.monitoring.svc:9090"
            )


@dataclass(frozen=True, slots=True)
class Times:
    """How long pods take to leave, and to start. The defaults fit together."""

    lame_duck_s: int = 20
    """Longer than the readiness probe takes to fail: 2 probes, 5 s apart."""
    drain_s: int = 300
    dns_period_s: int = 10
    margin_s: int = 60
    """Before Kubernetes kills what has not ended: chosen empirically."""
    start_s: int = 900

    @property
    def engine_leave_s(self) -> int:
        """Until every gateway has noticed that an engine left its DNS name, or joined it.

        It takes two resolutions (docs/replicas.md), each late by up to one period.
        """
        return 3 * self.dns_period_s


@dataclass(frozen=True, slots=True)
class Deployment:
    """Everything that is rendered."""

    tier: str
    namespace: str
    image: str
    """Of vLLM's engines."""
    gateway_image: str
    gateways: int
    """0 where the only pod is gateway and engine in one."""
    pools: tuple[Pool, ...]
    node: GpuNode
    monitoring: Monitoring
    backends: tuple[Backend, ...] = ()
    model_claim: str | None = None
    """A PersistentVolumeClaim that is mounted at /models; None to download the weights."""
    times: Times = field(default_factory=Times)

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.namespace):
            raise DeployError(f"--namespace {self.namespace!r} is no name of a namespace")
        for option, image in (("--image", self.image), ("--gateway-image", self.gateway_image)):
            if not _IMAGE.fullmatch(image):
                raise DeployError(f"{option} {image!r} is no reference to an image")
        if self.model_claim is not None and not _LABEL.fullmatch(self.model_claim):
            raise DeployError(f"--model-claim {self.model_claim!r} is no name of a claim")
        names = [pool.name for pool in self.pools]
        if not names or len(set(names)) != len(names):
            raise DeployError("a deployment needs pools of different names")
        if self.gateways == 0 and (len(names) > 1 or self.pools[0].max_replicas > 1):
            raise DeployError(
                f"the tier {self.tier} has one pod with one replica; take the tier mid-market for "
                "more (--tier mid-market)"
            )
        if self.gateways == 0 and (self.backends or self.pools[0].nodes_per_replica > 1):
            raise DeployError(
                f"the tier {self.tier} has one pod; --backend and --nodes-per-replica need the "
                "tier mid-market or enterprise"
            )
