"""A second node on this machine, in network, mount, IPC and host name spaces of its own.

Both ends of a virtual cable have an address. The second node sees no other interface than its end
and its own loopback, and it has a `/dev/shm` of its own: the two can exchange data over TCP only,
as two machines can. Needs root.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from chaos.gateway_process import GatewayProcess, start_gateway

PROGRAMS = ("ip", "unshare", "mount")
_MARK = "Node 1 is started by: "


@dataclass(frozen=True, slots=True)
class NodeNetwork:
    """The cable between this machine's own name space, the first node, and the second one."""

    namespace: str
    interfaces: tuple[str, str]
    addresses: tuple[str, str]

    def environment(self, node: int) -> dict[str, str]:
        """Variables with which vLLM and gloo use the cable."""
        return {
            "VLLM_HOST_IP": self.addresses[node],
            "GLOO_SOCKET_IFNAME": self.interfaces[node],
        }

    def second_node(self, arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """The command that runs `arguments` on the second node."""
        variables = [f"{name}={value}" for name, value in environment.items()]
        return [
            *("ip", "netns", "exec", self.namespace),
            *("unshare", "--mount", "--ipc", "--uts", "sh", "-c"),
            'mount -t tmpfs tmpfs /dev/shm && exec env "$@"',
            *("sh", *variables, *arguments),
        ]


def why_no_network() -> str:
    """Why this machine cannot have a second node; empty if it can."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"the programs {', '.join(missing)} are not installed"
    if os.geteuid() != 0:
        return "creating a network name space needs root"
    probe = f"plprobe{os.getpid()}"
    tried = subprocess.run(("ip", "netns", "add", probe), capture_output=True, text=True)
    if tried.returncode:
        return f"a network name space cannot be created: {tried.stderr.strip()}"
    _run("ip", "netns", "del", probe)
    return ""


@contextmanager
def node_network() -> Iterator[NodeNetwork]:
    """Lay the cable; removed on exit. The addresses are of a range for documentation."""
    tag = f"{os.getpid() % 10**7}"
    network = NodeNetwork(f"pl{tag}", (f"pl{tag}a", f"pl{tag}b"), ("198.51.100.1", "198.51.100.2"))
    inside = ("ip", "netns", "exec", network.namespace)
    first, second = network.interfaces
    _run("ip", "netns", "add", network.namespace)
    try:
        _run("ip", "link", "add", first, "type", "veth", "peer", "name", second)
        _run("ip", "link", "set", second, "netns", network.namespace)
        _run("ip", "addr", "add", f"{network.addresses[0]}/24", "dev", first)
        _run("ip", "link", "set", first, "up")
        _run(*inside, "ip", "addr", "add", f"{network.addresses[1]}/24", "dev", second)
        _run(*inside, "ip", "link", "set", second, "up")
        _run(*inside, "ip", "link", "set", "lo", "up")
        yield network
    finally:
        subprocess.run(("ip", "link", "del", first), capture_output=True)
        _run("ip", "netns", "del", network.namespace)


def find_node_command(config: Path, *arguments: str) -> tuple[dict[str, str], list[str]]:
    """What `paceline serve --check` prints for the second node: its variables and its command."""
    checked = subprocess.run(
        [
            *(sys.executable, "-c", "from paceline.cli import main; main()"),
            *("serve", "--check", "--config", str(config), *arguments),
        ],
        capture_output=True,
        text=True,
    )
    line = next((line for line in checked.stdout.splitlines() if _MARK in line), None)
    if line is None:
        raise RuntimeError(f"paceline serve --check: {checked.stdout}{checked.stderr}")
    words = shlex.split(line.partition(_MARK)[2])
    at = words.index("vllm")
    variables = dict(word.split("=", 1) for word in words[:at])
    return variables, [str(Path(sys.executable).parent / "vllm"), *words[at + 1 :]]


@contextmanager
def start_over_two_nodes(
    folder: Path, config: Mapping[str, Any], network: NodeNetwork, *, ready_within_s: float
) -> Iterator[tuple[GatewayProcess, subprocess.Popen[bytes]]]:
    """A server whose engine has a pipeline stage on each node; and the process of the second node.

    The second node is started by what `paceline serve --check` prints, on the last CPU of this
    machine; the engine on the first node computes on the first CPU.
    """
    nodes = ["--pipeline-parallel-size", "2", "--nnodes", "2", "--node-rank", "0"]
    nodes += ["--master-addr", network.addresses[0]]
    engine = {**config["engine"], "num_threads": 1}
    engine["vllm_args"] = [*engine.get("vllm_args", ()), *nodes]
    given = {**config, "engine": engine}
    file = folder / "nodes.yaml"
    file.write_text(yaml.safe_dump(given))
    variables, arguments = find_node_command(file)
    variables["VLLM_CPU_OMP_THREADS_BIND"] = str(max(os.sched_getaffinity(0)))
    log = folder / "second-node.log"
    with (
        start_second_node(network, arguments, variables, log) as second,
        start_gateway(
            folder, given, ready_within_s=ready_within_s, environment=network.environment(0)
        ) as gateway,
    ):
        yield gateway, second


@contextmanager
def start_second_node(
    network: NodeNetwork, arguments: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process on the second node; it and all below it are killed on exit."""
    command = network.second_node(arguments, {**network.environment(1), **environment})
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
