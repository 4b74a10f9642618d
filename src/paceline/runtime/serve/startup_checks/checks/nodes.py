"""Checks of an engine whose layers are spread over pipeline stages, and over several nodes."""

from __future__ import annotations

from paceline.foundation.compatibility.length_table import takes_length_table
from paceline.runtime.engine.compat.drafters import refused_in_pipeline
from paceline.runtime.serve.startup_checks.facts import StartupFacts
from paceline.runtime.serve.startup_checks.values import (
    CannotJudge,
    Found,
    passed,
    refused,
    warning,
)


def check_pipeline(facts: StartupFacts) -> Found | None:
    """Only few drafters run in a pipeline. None with one stage."""
    launch = facts.launch
    if launch is None or launch.pipeline_parallel == 1:
        return None
    sizes = f"--pipeline-parallel-size is {launch.pipeline_parallel}"
    method = launch.drafting.get("method")
    if not launch.drafting:
        return passed(f"{sizes}, without speculation")
    if not isinstance(method, str):
        raise CannotJudge("the speculative method is left to vLLM")
    uses_v2 = facts.device == "gpu" and takes_length_table(launch.drafting)
    why = refused_in_pipeline(method, use_v2_model_runner=uses_v2)
    if why is None:
        raise CannotJudge(f"{method} in a pipeline has not been run by Paceline's tests")
    return refused(
        f"{sizes}, and the drafter is {method}, which does not run in a pipeline: {why}. Set "
        "--draft none (engine.draft)"
        + (", --draft ngram" if facts.device == "gpu" else "")
        + ", or use --tensor-parallel-size instead, which runs with every drafter"
    )


def check_nodes(facts: StartupFacts) -> Found | None:
    """`paceline serve` starts node 0 of an engine. None with one node."""
    launch = facts.launch
    if launch is None or (launch.num_nodes == 1 and not launch.is_headless):
        return None
    if launch.is_headless or launch.node_rank > 0:
        return refused(
            "engine.vllm_args has --headless or a --node-rank above 0, and such a node answers no "
            "requests. Run vllm serve with the same arguments there (docs/how-to/several-gpus.md), "
            "and paceline serve on the first node, with --node-rank 0 after --"
        )
    if launch.uses_ray:
        return refused(
            f"--nnodes is {launch.num_nodes}, which vLLM's Ray executor does not take: Ray finds "
            "the nodes itself. Remove --nnodes, or --distributed-executor-backend ray"
        )
    if launch.num_devices * launch.data_parallel % launch.num_nodes:
        return refused(
            f"--nnodes is {launch.num_nodes}, and the {launch.num_devices} workers (tensor times "
            "pipeline parallel size) cannot be divided by it. Set --pipeline-parallel-size to the "
            "number of nodes and --tensor-parallel-size to the GPUs of each"
        )
    if facts.num_engines > 1:
        return refused(
            f"--nnodes is {launch.num_nodes} and engine.replicas is {facts.num_engines}, but all "
            "engines of a server have the same --master-port. Set engine.replicas to 1, and run "
            "one paceline serve for each replica"
        )
    if launch.master_address in ("", "127.0.0.1", "localhost"):
        return warning(
            f"--nnodes is {launch.num_nodes}, and --master-addr is this machine's loopback, which "
            "other machines cannot reach. Set it to this machine's address in their network"
        )
    return passed(
        f"node 0 of {launch.num_nodes}. The engine loads when the others have connected to "
        f"{launch.master_address}. Node 1 is started by: {facts.node_command}"
    )
