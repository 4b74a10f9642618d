"""`Replica`: what an engine is and whether it serves, and functions on several replicas.

How it does at this moment is in `signals`. `ReplicaSource` is the boundary to the code that starts
and watches the engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from paceline.foundation.command_line.printable import well_formed
from paceline.runtime.gateway.settings import AdmissionSettings

ReplicaState = Literal["starting", "ready", "draining", "down"]
"""Only a `ready` replica gets new requests; a `draining` one finishes those it has."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One engine that serves the OpenAI API."""

    name: str
    """Unique among the replicas, the same after a restart; a metric label."""
    address: str
    """Path of a Unix socket, or an http:// or https:// URL without a path."""
    model: str
    """The model id that clients name; of several, the first that it lists."""
    state: ReplicaState
    control_socket: Path | None = None
    """Socket of its governor; None when it has none."""
    max_model_len: int | None = None
    """Longest prompt plus answer, in tokens; None when unknown."""
    other_models: Mapping[str, int | None] = field(default_factory=dict, hash=False)
    """Further ids that it serves, such as aliases and LoRA adapters, each with the longest prompt
    plus answer."""
    num_restarts: int | None = None
    """Restarts so far; None when the source does not count them."""
    num_planned_restarts: int = 0
    """Those among them that an operator or a draft swap asked for."""
    dialect: str = "vllm"
    """Kind of server, a name of the table in `fleet.dialects`."""
    drafts: bool = False
    """Whether it uses speculative decoding; vLLM then refuses `min_p` and `logit_bias`."""
    honours_draft_caps: bool = False
    """Whether it is known to keep to a request's limit on draft tokens: it runs Paceline's
    scheduler, or does not draft."""
    serves_undrafted: bool = False
    """Whether it may serve `min_p` and `logit_bias` even so, without drafts for these requests:
    `AdaptiveScheduler` on CPUs. The refusal of one that does not is tried on another replica."""
    revision: str | None = None
    """Fingerprint of its model, weights, tokenizer and chat template; None when unknown. Only a
    replica of the same revision may continue a stream that it began."""
    version: str | None = None
    """Of its vLLM, as it reports it; None when unknown."""
    draft: str | None = None
    """What drafts for it: a draft model's folder or name, or a method; None when unknown."""
    key: str | None = field(default=None, repr=False)
    """Sent to it as a bearer token; None to send none."""
    max_in_flight: int | None = None
    """Most sequences in flight at it; None for the gateway's own setting."""
    max_tokens_in_flight: int | None = None
    """Most tokens in flight at it, in the same way."""
    reason: str = ""
    """Why a local engine is not ready; empty when it is, and when unknown."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name is empty; a replica needs one, it labels its metrics")
        if not self.address.startswith(("/", "http://", "https://")):
            raise ValueError(
                f"address is {self.address!r}; it must be the absolute path of a Unix socket, or "
                "an http:// or https:// URL"
            )
        # Both go into metrics, JSON and messages to worker processes; a folder may be called
        # anything.
        object.__setattr__(self, "model", well_formed(self.model))
        if self.version is not None:
            object.__setattr__(self, "version", well_formed(self.version))
        if self.draft is not None:
            object.__setattr__(self, "draft", well_formed(self.draft))

    def serves(self, model: str) -> bool:
        """Whether it serves this model id."""
        return model == self.model or model in self.other_models

    def context_of(self, model: str) -> int | None:
        """The longest prompt plus answer of a served model id; None when unknown."""
        return self.max_model_len if model == self.model else self.other_models[model]

    @property
    def reports_token_ids(self) -> bool:
        """Whether its streams can carry token ids, which another replica needs to continue them."""
        return self.dialect == "vllm"

    @property
    def num_unplanned_restarts(self) -> int | None:
        """Restarts because the engine ended or hung; None when restarts are not counted."""
        return None if self.num_restarts is None else self.num_restarts - self.num_planned_restarts

    @property
    def gives_reason(self) -> bool:
        """Whether every complete stream has a finish_reason. TGI gives none after a complete tool
        call."""
        return self.dialect != "tgi"

    @property
    def is_unix(self) -> bool:
        return self.address.startswith("/")


class ReplicaSource(Protocol):
    """The current replicas."""

    def replicas(self) -> Sequence[Replica]:
        """All replicas as of now, ready or not; empty when nothing is served yet.

        Called for every request: it must answer from memory, without blocking or raising. The
        gateway neither keeps nor mutates the result.
        """
        ...


def of_model(replicas: Iterable[Replica], model: str) -> list[Replica]:
    """The replicas of one model, ready or not; empty when it is not served."""
    return [replica for replica in replicas if replica.serves(model)]


def queue_of(replicas: Sequence[Replica], model: str) -> str:
    """The model in whose queue requests for a served `model` wait.

    Requests for several ids of the same replicas wait in one queue, that of the first id, since
    they compete for the same slots.
    """
    serving = of_model(replicas, model)
    first = serving[0].model
    return first if all(replica.serves(first) for replica in serving) else model


def named(replicas: Iterable[Replica], name: str) -> Replica | None:
    """The replica of this name; None when there is none."""
    return next((replica for replica in replicas if replica.name == name), None)


def was_stopped(before: Replica, now: Replica | None) -> bool:
    """Whether the replica was removed, drained or restarted on purpose since `before`."""
    if now is None or now.state == "draining":
        return True
    return now.num_planned_restarts != before.num_planned_restarts


def model_ids(replicas: Iterable[Replica]) -> list[str]:
    """The models that are served: the first id of each replica, sorted, then the others. Clients
    that name no model take the first of the list, which is to be no adapter."""
    first: set[str] = set()
    others: set[str] = set()
    for replica in replicas:
        first.add(replica.model)
        others.update(replica.other_models)
    return [*sorted(first - {""}), *sorted(others - first)]


def longest_context(replicas: Sequence[Replica], model: str) -> int | None:
    """The longest context among the replicas of a model; None when one of them is unknown."""
    lengths = [replica.context_of(model) for replica in replicas]
    known = [length for length in lengths if length is not None]
    return max(known) if known and len(known) == len(lengths) else None


def num_slots_of(replica: Replica, settings: AdmissionSettings) -> int:
    """Sequences that the replica takes at a time."""
    return settings.max_in_flight if replica.max_in_flight is None else replica.max_in_flight


def max_tokens_of(replica: Replica, settings: AdmissionSettings) -> int | None:
    """Most tokens in flight at the replica; None for no limit."""
    own = replica.max_tokens_in_flight
    return settings.max_tokens_in_flight if own is None else own


def num_slots_by_name(replicas: Iterable[Replica], settings: AdmissionSettings) -> dict[str, int]:
    """Sequences that each ready replica takes at a time."""
    return {
        replica.name: num_slots_of(replica, settings)
        for replica in replicas
        if replica.state == "ready"
    }


def explain_unready(replicas: Sequence[Replica]) -> str:
    """The message to a client when none of these replicas can serve."""
    if not replicas:
        return "No engine has been started."
    starting = sum(replica.state == "starting" for replica in replicas)
    down = sum(replica.state == "down" for replica in replicas)
    return f"No engine is ready at the moment: {starting} starting, {down} down."
