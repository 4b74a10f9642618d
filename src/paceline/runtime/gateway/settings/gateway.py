"""`GatewaySettings`: ports, limits and time limits of the gateway, and its parts' settings."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields

from paceline.runtime.gateway.settings.admission import AdmissionSettings
from paceline.runtime.gateway.settings.capture import CaptureSettings
from paceline.runtime.gateway.settings.failures import FailureSettings
from paceline.runtime.gateway.settings.fleet import FleetSettings
from paceline.runtime.gateway.settings.json_limits import JsonLimits, limits_for
from paceline.runtime.gateway.settings.keys import KeySettings

_LEAST_OF_WORKER_BYTES = 4 * 1024 * 1024
"""A worker's part of `max_buffered_bytes`: room for some twenty small requests."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """All settings of the gateway. Times are in seconds."""

    host: str = "127.0.0.1"
    """Address of the data port."""
    port: int = 8000
    """Data port; 0 for any free one."""
    admin_host: str = "127.0.0.1"
    """Address of the admin port; an address other than loopback needs `keys.admin_key_file`."""
    admin_port: int = 8001
    """Admin port; 0 for any free one."""
    probe_host: str = "127.0.0.1"
    """Address of the probe port."""
    probe_port: int | None = None
    """Port with `/health` and `/ready` only; 0 for any free one, None for none."""
    allowed_hosts: frozenset[str] = frozenset()
    """Host names under which clients may address a data port that requires no key. On loopback,
    localhost and IP addresses are always allowed."""
    allowed_origins: frozenset[str] = frozenset()
    """Origins of the web pages that may use the data port (CORS), as browsers send them; `*` for
    all."""
    workers: int = 1
    """Processes that serve the data port. With 1, this process serves it. With more, child
    processes serve it, and this process watches the replicas and serves the admin port."""

    max_body_bytes: int = 8 * 1024 * 1024
    """Longest request body; 8 MiB holds about two million tokens of text."""
    body_timeout_s: float = 30.0
    """Time limit for the headers of a request, and again for its body."""
    max_json_values: int = 262_144
    """Most JSON values in a request body, over all levels; each token id is one."""
    max_buffered_bytes: int = 1024 * 1024 * 1024
    """Most memory for the requests and answers that the gateway holds at a time. Workers divide
    it. A request that exceeds it is refused at once; one that needs more than a whole part is held
    in addition, one at a time in each worker."""
    max_tenant_buffered_fraction: float = 0.5
    """Share of `max_buffered_bytes` that the requests of one tenant may take."""
    max_connections: int = 4096
    """Most connections per port and process. A further one replaces the one that has waited longest
    for a request, and gets a 503 when all are being answered."""
    min_client_bytes_per_s: float = 400.0
    """A client that reads an answer more slowly, over `client_stall_timeout_s`, is dropped."""
    max_choices: int = 8
    """Largest `n`; with vLLM's own limit of 16,384, one request could fill the engine."""
    granted_fields: frozenset[str] = frozenset()
    """Engine fields that the gateway refuses by default and that clients may use."""

    connect_timeout_s: float = 2.0
    """A replica must accept the connection within this time."""
    first_byte_timeout_s: float = 300.0
    """A stream must begin within this time, which covers the engine's queue and the prefill."""
    stall_timeout_s: float = 120.0
    """A replica must send the next bytes of a stream within this time."""
    response_timeout_s: float = 600.0
    """An answer that is not streamed must be complete within this time. A timeout does not count
    against the replica: long answers exceed it, too."""
    client_stall_timeout_s: float = 120.0
    """The gateway drops a client that reads no bytes for this long."""
    max_response_bytes: int = 64 * 1024 * 1024
    """Longest answer that is not streamed. The gateway holds it until it is complete, so that a
    failure can still be answered with an error status."""

    log_prompts: bool = False
    """Whether the log shows the text of engine errors, which may quote prompts and answers."""
    retry_after_s: int = 5
    """Retry-After of a 503; clients ignore values above 120 s."""
    lame_duck_s: float = 10.0
    """After SIGTERM the data port serves on for this long while `/ready` answers 503, so that load
    balancers stop sending requests before connections are refused. Kubernetes probes every 10 s
    by default, Google Cloud and Envoy's examples every 5 s, HAProxy every 2 s."""
    drain_timeout_s: float = 300.0
    """Requests in flight may continue for this long once the gateway stops accepting connections.
    An answer of 4,000 tokens takes five minutes at 13 tokens per second."""
    control_timeout_s: float = 2.0
    """A replica's control channel must answer within this time."""

    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    """How many requests are admitted, and how long others may wait."""
    failures: FailureSettings = field(default_factory=FailureSettings)
    """Circuit breakers, retries and stall detection."""
    keys: KeySettings = field(default_factory=KeySettings)
    """Files of the API keys, of the admin keys, and of the secret of the cache salts."""
    capture: CaptureSettings = field(default_factory=CaptureSettings)
    """Which prompts are kept; none by default."""
    fleet: FleetSettings = field(default_factory=FleetSettings)
    """Remote replicas, and how they are polled."""

    @property
    def ports(self) -> tuple[tuple[str, int, str], ...]:
        """Host, port and name of the setting of every port that a gateway opens."""
        ports = [(self.host, self.port, "port"), (self.admin_host, self.admin_port, "admin_port")]
        if self.probe_port is not None:
            ports.append((self.probe_host, self.probe_port, "probe_port"))
        return tuple(ports)

    def __post_init__(self) -> None:
        for name in ("port", "admin_port", "probe_port"):
            port = getattr(self, name)
            if port is not None and not 0 <= port <= 65_535:
                raise ValueError(f"{name} is {port}; it must be from 0 to 65535")
        if self.workers < 1:
            raise ValueError(f"workers is {self.workers}; it must be at least 1")
        for name in (one.name for one in fields(self)):
            value = getattr(self, name)
            if name.startswith("max_") and isinstance(value, int) and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
            if name.endswith("_fraction") and not 0 < value <= 1:
                raise ValueError(f"{name} is {value}; it must be more than 0 and at most 1")
            if name.endswith("_timeout_s") and not value > 0:
                raise ValueError(f"{name} is {value}; it must be more than 0 seconds")
        if self.lame_duck_s < 0:
            raise ValueError(f"lame_duck_s is {self.lame_duck_s}; it must be at least 0 seconds")
        if not 1 <= self.retry_after_s <= 120:
            raise ValueError(
                f"retry_after_s is {self.retry_after_s}; it must be from 1 to 120 seconds"
            )
        if self.workers > 1 and self.max_buffered_bytes < self.workers * _LEAST_OF_WORKER_BYTES:
            raise ValueError(
                f"max_buffered_bytes is {self.max_buffered_bytes}; with {self.workers} workers, "
                f"which divide it, it must be at least {self.workers * _LEAST_OF_WORKER_BYTES}"
            )
        if self.keys.admin_key_file is None and not _is_loopback(self.admin_host):
            raise ValueError(
                f"admin_host is {self.admin_host!r}, where other machines can reach the admin "
                "port, and there is no key for it; set keys.admin_key_file (paceline keys create "
                "--admin creates the file), or set admin_host to 127.0.0.1"
            )

    @property
    def json_limits(self) -> JsonLimits:
        """Bounds of a request body's structure."""
        return limits_for(self.max_json_values)


def _is_loopback(host: str) -> bool:
    """Whether only this machine can reach this address, as far as its text shows."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
