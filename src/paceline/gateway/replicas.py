"""What does the gateway know of the engines behind it, and which one takes a request?

The boundary to whoever starts and watches the engines, and the choice among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

ReplicaState = Literal["starting", "ready", "draining", "down"]
"""Only `ready` takes new requests; `draining` ends those it has."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One engine that speaks the OpenAI API, as known at this moment."""

    name: str
    """Unique among the replicas, stable over restarts; a metric label."""
    address: str
    """Path of a Unix socket, or an http:// or https:// URL without a path."""
    model: str
    """The model id that clients name."""
    state: ReplicaState
    control_socket: Path | None = None
    """Where its governor listens; None when it has none."""
    max_model_len: int | None = None
    """Longest prompt plus answer in tokens; None when not known."""
    num_restarts: int | None = None
    """How often it was started again; None when the source does not count."""
    dialect: str = "vllm"
    """Which server it is, a name of the dialect table."""
    drafts: bool = False
    """Whether it drafts speculatively; vLLM then refuses `min_p` and `logit_bias`."""
    key: str | None = field(default=None, repr=False)
    """Sent to it as a bearer token; None for none."""
    max_in_flight: int | None = None
    """Most requests it is given at a time; None for the gateway's own setting."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name is empty; a replica needs one, it labels its metrics")
        if not self.address.startswith(("/", "http://", "https://")):
            raise ValueError(
                f"address is {self.address!r}; allowed are the absolute path of a Unix socket "
                "and an http:// or https:// URL"
            )

    @property
    def tells_token_ids(self) -> bool:
        """Whether its streams can carry token ids, so that they can be continued elsewhere."""
        return self.dialect == "vllm"

    @property
    def is_unix(self) -> bool:
        return self.address.startswith("/")


class ReplicaSource(Protocol):
    """Where the gateway learns of its replicas."""

    def replicas(self) -> Sequence[Replica]:
        """All replicas as of now, ready or not.

        Called for every request: it must answer from memory, without blocking or raising. The
        gateway neither keeps nor mutates the result. An empty sequence is valid (nothing is
        served yet).
        """
        ...


def longest_context(replicas: Sequence[Replica]) -> int | None:
    """The longest context among replicas of one model; None when one of them is not known."""
    lengths = [replica.max_model_len for replica in replicas]
    known = [length for length in lengths if length is not None]
    return max(known) if known and len(known) == len(lengths) else None


def explain_unready(replicas: Sequence[Replica]) -> str:
    """Why none of these can serve, in words for a client."""
    if not replicas:
        return "No engine has been started."
    starting = sum(replica.state == "starting" for replica in replicas)
    down = sum(replica.state == "down" for replica in replicas)
    return f"No engine is ready just now: {starting} starting, {down} down."
