"""The options of `paceline deploy render`, and the deployment that they describe."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

import paceline
from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import ABOVE_0, AT_LEAST_1, NamedChoice
from paceline.foundation.planning.sources.catalogue import load_catalogue
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.planning.values import Load
from paceline.operations.deploy.other_servers import model_id, split_pool_option
from paceline.operations.deploy.sizing import AUTO, PoolRequest, figures, read_entry, size_pool
from paceline.operations.deploy.tiers import TIERS, Tier, find_node
from paceline.operations.deploy.values import Backend, DeployError, Deployment, Monitoring
from paceline.runtime.config.tree import DialectName

Command = TypeVar("Command", bound=Callable[..., Any])

MAIN, LONG = "main", "long"
_LONG_PROMPT_FRACTION = 0.25
"""Of the longest context, as the usual prompt of the pool for long contexts: chosen empirically."""

_OPTIONS = (
    click.option(
        "--tier",
        type=NamedChoice([tier.name for tier in TIERS]),
        required=True,
        help="Size of the deployment: "
        + " ".join(f"{tier.name}: {tier.summary}" for tier in TIERS),
    ),
    click.option(
        "--out",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        required=True,
        help="Folder for the files.",
    ),
    click.option("--gpu", help="GPU of the planner's catalogue, such as h100.  [default: by tier]"),
    click.option(
        "--gpu-product",
        "gpu_products",
        multiple=True,
        help="Value of the node label nvidia.com/gpu.product; repeatable.  [default: by --gpu]",
    ),
    click.option(
        "--tensor-parallel", type=AT_LEAST_1, help="GPUs of one pod.  [default: by tier, or 1]"
    ),
    click.option(
        "--nodes-per-replica",
        type=AT_LEAST_1,
        default=1,
        show_default=True,
        help="More than 1: a pipeline stage on each node, as a LeaderWorkerSet, without drafts.",
    ),
    click.option("--replicas", type=AT_LEAST_1, help="Of the model, at least.  [default: by tier]"),
    click.option(
        "--max-replicas", type=AT_LEAST_1, help="Of the model, at most.  [default: by tier]"
    ),
    click.option("--gateways", type=AT_LEAST_1, help="[default: by tier]"),
    click.option(
        "--draft",
        help="Drafter: auto, ngram, suffix, none, or a draft model. auto is n-gram lookup, which "
        "takes no memory; with --acceptance, the draft model of the table where it wins.",
    ),
    click.option(
        "--acceptance",
        type=FiniteFloat(min=0, max=1, max_open=True),
        help="Probability that a draft token is accepted, from `paceline bench run`.",
    ),
    click.option("--served-name", help="Model id for clients.  [default: the model's name]"),
    click.option("--max-model-len", type=click.IntRange(min=16), help="Longest request."),
    click.option(
        "--long-context",
        type=click.IntRange(min=16),
        help="Enterprise: longest request of the pool for long contexts.  [default: the model's]",
    ),
    click.option("--prompt-tokens", type=AT_LEAST_1, default=1024, show_default=True),
    click.option("--output-tokens", type=AT_LEAST_1, default=256, show_default=True),
    click.option(
        "--pool",
        "pools",
        multiple=True,
        metavar="ENGINE[=IMAGE]",
        help="One more pool with the model, served by trtllm or triton instead of vLLM, under a "
        "model id of its own; repeatable.",
    ),
    click.option(
        "--backend",
        "backends",
        multiple=True,
        metavar="DIALECT=HOST:PORT",
        help="Servers of another engine that run in the cluster already, by a DNS name; "
        "repeatable.",
    ),
    click.option("--namespace", default="paceline", show_default=True),
    click.option(
        "--image",
        default=f"paceline:{paceline.__version__}-cuda",
        show_default=True,
        help="Image of the engines; name it by digest.",
    ),
    click.option("--gateway-image", help="Image of the gateways.  [default: that of the engines]"),
    click.option(
        "--model-claim",
        help="PersistentVolumeClaim with the models as folders; otherwise pods download them.",
    ),
    click.option(
        "--monitoring",
        type=NamedChoice(["operator", "annotations"]),
        default="operator",
        show_default=True,
        help="How Prometheus finds the pods.",
    ),
    click.option("--monitoring-namespace", default="monitoring", show_default=True),
    click.option(
        "--prometheus-url",
        default="http://prometheus-operated.monitoring.svc:9090",
        show_default=True,
        help="Where KEDA asks Prometheus.",
    ),
    click.option("--usd-per-gpu-hour", type=ABOVE_0, help="Your price of one GPU."),
    click.option(
        "--catalogue",
        "catalogue_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="JSON file with your own gpus and models, as for `paceline plan`.",
    ),
)


def render_options(command: Command) -> Command:
    """Add every option to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def deployment_of(
    tier: Tier, model: str | None, options: dict[str, Any]
) -> tuple[Deployment, dict[str, Any]]:
    """Return the deployment and its figures. Raises `DeployError` or `PlanError`."""
    catalogue = load_catalogue(options["catalogue_file"])
    # The tier's GPUs fit the tier's model; with another one, a single GPU is the start.
    is_default = model is None and options["gpu"] is None
    entry = read_entry(catalogue, options["gpu"] or tier.gpu, options["usd_per_gpu_hour"])
    node = find_node(entry.hardware.name, options["gpu_products"])
    size = options["tensor_parallel"] or (tier.tensor_parallel if is_default else 1)
    replicas = options["replicas"] or tier.replicas
    most = options["max_replicas"] or max(replicas, tier.max_replicas)
    nodes = options["nodes_per_replica"]
    if nodes > 1 and options["draft"] not in (None, "none"):
        raise DeployError(
            f"--draft {options['draft']} with --nodes-per-replica {nodes}: speculation over "
            "pipeline stages is not supported; leave --draft out"
        )
    name = model or tier.model
    main = PoolRequest(
        name=MAIN,
        model=name,
        draft="none" if nodes > 1 else options["draft"] or AUTO,
        acceptance=options["acceptance"],
        served_name=options["served_name"] or _served_name(name),
        tensor_parallel=size,
        nodes_per_replica=nodes,
        min_replicas=replicas,
        max_replicas=most,
        max_model_len=options["max_model_len"],
        load=Load(options["prompt_tokens"], options["output_tokens"]),
    )
    requests = [main]
    if tier.has_long_pool:
        longest = options["long_context"] or find_model(name, catalogue).shape.max_context_tokens
        prompt = int(_LONG_PROMPT_FRACTION * longest)
        requests.append(
            replace(
                main,
                name=LONG,
                served_name=f"{main.served_name}-{LONG}",
                min_replicas=1,
                max_replicas=max(1, most // 4),
                max_model_len=longest,
                load=Load(prompt, min(options["output_tokens"], prompt)),
            )
        )
    elif options["long_context"] is not None:
        raise DeployError(f"--long-context: the tier {tier.name} has no pool for long contexts")
    requests += _other_pools(main, options["pools"])
    on_claim = options["model_claim"] is not None
    sized = tuple(size_pool(request, catalogue, entry, on_claim=on_claim) for request in requests)
    if options["gateways"] is not None and tier.gateways == 0:
        raise DeployError(f"--gateways: the tier {tier.name} has one pod, which is the gateway")
    deployment = Deployment(
        tier=tier.name,
        namespace=options["namespace"],
        image=options["image"],
        gateway_image=options["gateway_image"] or options["image"],
        gateways=options["gateways"] or tier.gateways,
        pools=tuple(entry.pool for entry in sized),
        node=node,
        monitoring=Monitoring(
            options["monitoring"] == "operator",
            options["monitoring_namespace"],
            options["prometheus_url"],
        ),
        backends=tuple(_backend(text) for text in options["backends"]),
        model_claim=options["model_claim"],
    )
    return deployment, figures(entry, sized)


def _other_pools(main: PoolRequest, texts: Sequence[str]) -> list[PoolRequest]:
    """The pools of `--pool`: the model without a draft, in a quarter of the replicas."""
    chosen = [split_pool_option(text) for text in texts]
    names = [server for server, _ in chosen]
    if len(set(names)) != len(names):
        raise DeployError(f"--pool {', --pool '.join(texts)}: give each engine once")
    return [
        replace(
            main,
            name=server,
            draft="none",
            served_name=model_id(server, main.served_name),
            min_replicas=1,
            max_replicas=max(1, main.max_replicas // 4),
            server=server,
            image=image,
        )
        for server, image in chosen
    ]


def _served_name(model: str) -> str:
    """The folder's name, or the whole Hugging Face name, as `paceline serve` names models."""
    path = Path(model)
    if not path.exists():
        return model
    return (path.parent if path.name == "config.json" else path).resolve().name


def _backend(text: str) -> Backend:
    dialect, equals, address = text.partition("=")
    host, colon, port = address.rpartition(":")
    dialects = get_args(DialectName)
    is_port = re.fullmatch("[0-9]{1,5}", port)
    if not equals or not colon or not is_port or dialect not in dialects:
        raise DeployError(
            f"--backend {text!r}: give DIALECT=HOST:PORT; dialects are {', '.join(dialects)}"
        )
    return Backend(dialect, host, int(port))
