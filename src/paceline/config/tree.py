"""What can be set, with which default, and what does it mean?

The whole configuration as one frozen tree. Where the values come from is told in `sources`;
`paceline serve --print-config` prints this tree with its descriptions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from paceline.governor.policies.registry import PolicyName

DtypeName = Literal["auto", "bfloat16", "float16", "float32"]
DialectName = Literal["vllm", "sglang", "trtllm", "triton", "tgi", "llamacpp", "openai"]

BUNDLED = "bundled"
"""Stands for the bundled pair where a model is asked for."""

Port = Annotated[int, Field(ge=0, le=65_535)]
Seconds = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


class ServerSettings(_Frozen):
    """What clients and operators connect to."""

    host: str = "127.0.0.1"
    """Address of the data port; 0.0.0.0 or :: serves the network."""
    port: Port = 8000
    """Data port, with the OpenAI API; 0 lets the system choose."""
    admin_host: str = "127.0.0.1"
    """Address of the admin port; beyond loopback it needs `keys.admin_key_file`."""
    admin_port: Port = 8001
    """Admin port, with metrics and the governor; 0 lets the system choose."""
    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = "auto"
    """Processes that serve the data port. `auto` is one where engines compute on this machine's
    CPUs or it has fewer than 8 cores, else one for every 8 cores and at most 4."""
    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=1024)
    """Longest request body, in bytes."""
    max_choices: int = Field(default=8, ge=1, le=128)
    """Largest `n` (answers to one request)."""
    granted_fields: frozenset[str] = frozenset()
    """Engine fields of a request that clients may use although they are refused by default."""
    first_byte_timeout_s: Seconds = 300.0
    """A stream must begin within this time: waiting in the engine's queue, and the prefill."""
    stall_timeout_s: Seconds = 120.0
    """A stream that has begun must go on within this time."""
    response_timeout_s: Seconds = 600.0
    """An answer that is not streamed must be complete within this time."""
    drain_timeout_s: Seconds = 30.0
    """How long requests in flight may take to end once the server stops."""
    log_prompts: bool = False
    """Whether the log shows the words of engines' errors, which may quote prompts and answers."""


class EngineSettings(_Frozen):
    """What is served, and how the engine runs."""

    model: str = BUNDLED
    """Folder or Hugging Face name of the target model; `bundled` is the pair inside Paceline."""
    served_name: str | None = None
    """Model id that clients name; by default the folder's last part or the Hugging Face name."""
    draft: str = "auto"
    """Drafter: `auto` (the family's draft model where one is known, else n-gram), `ngram`,
    `suffix`, `none`, or the folder or Hugging Face name of a draft model."""
    policy: PolicyName = "goodput"
    """Who chooses the draft length: `goodput` (most tokens per second, measured), `latency` (the
    slowest answers as fast as can be, measured), `threshold` (acceptance only), `schedule` (a table
    by load), `fixed`, or `off`. It can be changed at run time."""
    draft_length_max: int = Field(default=8, ge=1, le=64)
    """Most tokens drafted per step; the ceiling of every policy."""
    draft_length: int | None = Field(default=None, ge=0)
    """Draft length of the policy `fixed`; by default draft_length_max."""
    schedule: tuple[tuple[int, int, int], ...] | None = None
    """For the policy `schedule`: a list of [lowest, highest, draft length] by running requests."""
    replicas: int = Field(default=1, ge=0, le=64)
    """Engines to start on this machine; they share its cores. 0 serves the remote `replicas` only,
    and loads no model."""
    dtype: DtypeName = "auto"
    """Number format of weights and arithmetic; `auto` follows the processor."""
    max_model_len: int | None = Field(default=None, ge=16)
    """Longest prompt plus answer, in tokens; by default what the model was made for."""
    num_threads: int | None = Field(default=None, ge=1)
    """Compute threads per engine on a CPU; by default one for each physical core it may use."""
    kv_cache_bytes: int | None = Field(default=None, ge=1024 * 1024)
    """Memory for the KV cache of one engine; by default a share of what is free (CPU), or
    vLLM's own rule (GPU)."""
    vllm_args: tuple[str, ...] = ()
    """Further arguments for vLLM's server, taken last; on the command line those after `--`."""
    start_timeout_s: Seconds = 900.0
    """An engine must be ready within this time: loading, compiling, warming up."""
    log_folder: Path | None = None
    """Where the engines' logs go; by default the user's state folder."""

    @model_validator(mode="after")
    def _fits_together(self) -> EngineSettings:
        if self.draft_length is not None and self.draft_length > self.draft_length_max:
            raise ValueError(
                f"draft_length is {self.draft_length}; allowed is 0 (off) to "
                f"{self.draft_length_max}, which is draft_length_max"
            )
        if self.policy == "schedule" and self.schedule is None:
            raise ValueError(
                "policy is 'schedule', which needs `schedule`: a list of "
                "[lowest, highest, draft length], for example [[1, 8, 6], [9, 256, 2]]"
            )
        return self


class SloSettings(_Frozen):
    """What is promised to clients; nothing where it is left out."""

    time_per_output_token_ms: float | None = Field(default=None, gt=0)
    """Time between two chunks of an answer, in milliseconds, that 99 of 100 keep: prompts are
    computed in pieces small enough for it, and `goodput` and `latency` draft no further."""


class AdmissionSettings(_Frozen):
    """How many requests are let in, and how long the others may wait."""

    max_in_flight: int = Field(default=256, ge=1)
    """Most requests that a replica is given at a time, where the replica does not say; vLLM's
    --max-num-seqs is a good value. With less the engine idles under load; with more, requests wait
    inside the engine, where none is refused early."""
    max_queue: int = Field(default=1024, ge=0)
    """Most requests of a model that wait at a time; 0 lets nobody wait."""
    max_queue_wait_s: Seconds = 10.0
    """Longest wait. Who is likely to wait longer is refused at once. Once there has been a queue
    for so long, a quarter of what a request usually takes is the limit, until it has cleared."""
    max_deadline_s: Seconds = 3600.0
    """Most time for a request, also where its client names none (x-request-timeout-ms) or more."""


class FailureSettings(_Frozen):
    """What happens when a replica fails."""

    max_failure_fraction: float = Field(default=0.5, gt=0, le=1)
    """A replica that fails this share of its last requests, or more, takes none for a while. One
    that refuses a connection is out at once."""
    min_samples: int = Field(default=10, ge=1)
    """With fewer requests than this in 30 s, the share ejects no replica."""
    max_open_s: float = Field(default=30.0, ge=1)
    """Longest time until an ejected replica is tried again; the first time it is one second."""
    max_attempts: int = Field(default=3, ge=1)
    """Most attempts for one request before its first byte; 1 tries once and never again."""
    max_continuations: int = Field(default=3, ge=0)
    """Most times in a row that another replica continues a stream and brings it forward by fewer
    than 16 tokens; in all, four times as many."""
    retry_fraction: Fraction = 0.2
    """Retries may add this share to the requests of the last 10 s, …"""
    retry_reserve: int = Field(default=256, ge=0)
    """… and this many more: at least as many as one replica takes at a time, so that none is lost
    when it dies."""
    replica_wait_s: Seconds = 10.0
    """When no replica can take a request that failed, it waits for one for so long."""
    silence_s: Seconds = 30.0
    """A replica whose only stream brings nothing for so long may be hung; with three streams or
    more it takes a third of it. Rises with the silences that the replica usually has."""
    first_silence_s: Seconds = 60.0
    """The same while no stream has begun: prompts are being computed, which brings no bytes."""


class KeysSettings(_Frozen):
    """Who may use the server. `paceline keys` makes and revokes keys."""

    file: Path | None = None
    """File of the API keys, hashed; without one the data port asks for no key. Changes are noticed
    while the server runs."""
    admin_key_file: Path | None = None
    """File of the admin port's keys, hashed; without one that port asks for no key and must stay
    on loopback."""
    salt_file: Path | None = None
    """File of the secret that keeps tenants apart in the engines' prefix caches, made at its first
    use; by default `file` with `.salt` added. Gateways of one fleet share it."""
    metrics_need_key: bool = False
    """Whether `/metrics` asks for the admin key too."""


class FleetSettings(_Frozen):
    """How remote replicas are watched."""

    poll_period_s: Seconds = 2.0
    """A remote replica is asked this often whether it is well."""
    poll_timeout_s: Seconds = 5.0
    """It must answer within this time."""
    failures_before_down: int = Field(default=3, ge=1)
    """It is down after as many polls in a row without a good answer."""
    load_period_s: Seconds = 5.0
    """The load of every replica, local or remote, is read from its metrics this often."""
    dns_period_s: Seconds = 10.0
    """DNS names are resolved again this often."""
    warm_up: bool = True
    """Whether a remote replica must answer a small request before it takes traffic."""
    warm_up_timeout_s: Seconds = 120.0
    """It must have answered it within this time, the wait in its own queue included."""


class ReplicaSettings(_Frozen):
    """A remote replica, or all behind one DNS name."""

    url: str | None = None
    """Its address, http://host:port or https://host:port, without a path."""
    dns: str | None = None
    """Instead of `url`: host:port of which every A and AAAA record is a replica, over http."""
    name: str | None = None
    """Label of its metrics; by default host and port."""
    model: str | None = None
    """The model id that clients name; by default the first that it lists."""
    dialect: DialectName = "vllm"
    """Which server it is; `openai` for any other than those named."""
    drafts: bool = False
    """Whether it drafts speculatively; vLLM then refuses `min_p` and `logit_bias`."""
    key_file: Path | None = None
    """File with the key that is sent to it as a bearer token; read once, at the start."""
    max_in_flight: int | None = Field(default=None, ge=1)
    """Most requests it is given at a time."""


class Settings(_Frozen):
    """Everything that can be set."""

    server: ServerSettings = ServerSettings()
    """What clients and operators connect to."""
    engine: EngineSettings = EngineSettings()
    """What is served, and how the engine runs."""
    slo: SloSettings = SloSettings()
    """What is promised to clients."""
    admission: AdmissionSettings = AdmissionSettings()
    """How many requests are let in, and how long the others may wait."""
    failures: FailureSettings = FailureSettings()
    """What happens when a replica fails."""
    keys: KeysSettings = KeysSettings()
    """Who may use the server. `paceline keys` makes and revokes keys."""
    fleet: FleetSettings = FleetSettings()
    """How remote replicas are watched."""
    replicas: Annotated[
        tuple[ReplicaSettings, ...], BeforeValidator(lambda value: () if value is None else value)
    ] = ()
    """Remote replicas, a list of mappings; only in the file. They are served beside the engines of
    this machine."""
