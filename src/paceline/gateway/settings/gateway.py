"""Which limits and deadlines does the gateway work with?

A value, filled by the caller (`paceline serve` fills it from the configuration). It reads no
file and no environment.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields

from paceline.gateway.settings.admission import AdmissionSettings
from paceline.gateway.settings.failures import FailureSettings
from paceline.gateway.settings.fleet import FleetSettings
from paceline.gateway.settings.keys import KeySettings


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Everything an operator may set on the gateway. Times are in seconds, ports may be 0."""

    host: str = "127.0.0.1"
    """Address of the data port."""
    port: int = 8000
    """Data port; 0 lets the system choose."""
    admin_host: str = "127.0.0.1"
    """Address of the admin port; beyond loopback it needs `keys.admin_key_file`."""
    admin_port: int = 8001
    """Admin port; 0 lets the system choose."""
    workers: int = 1
    """Processes that serve the data port. One is this process itself; with more, each is one of
    its own, and this one watches the replicas and serves the admin port."""

    max_body_bytes: int = 8 * 1024 * 1024
    """Longest request body; 8 MiB holds about two million tokens of text."""
    body_timeout_s: float = 30.0
    """A client must have sent its headers, and then its whole body, within this time each."""
    max_json_depth: int = 64
    """Deepest nesting of a request body; tool schemas in use reach about 20."""
    max_json_keys: int = 20_000
    """Most object keys in a request body, counted over all levels."""
    max_choices: int = 8
    """Largest `n`; vLLM's own cap of 16,384 lets one request fill the engine."""
    max_prompts: int = 64
    """Most prompts in one completions request."""
    granted_fields: frozenset[str] = frozenset()
    """Engine fields that clients may use although the gateway refuses them by default."""

    connect_timeout_s: float = 2.0
    """A replica must accept the connection within this time."""
    first_byte_timeout_s: float = 300.0
    """A stream must begin within this time: the engine's queue and the prefill."""
    stall_timeout_s: float = 120.0
    """A stream that has begun must bring its next bytes within this time."""
    response_timeout_s: float = 600.0
    """An answer that is not streamed must be complete within this time."""
    client_stall_timeout_s: float = 120.0
    """A client that takes no bytes for this long is given up."""
    max_event_bytes: int = 1024 * 1024
    """Longest server-sent event that is held back until it is whole; longer ones pass in parts."""
    max_response_bytes: int = 64 * 1024 * 1024
    """Longest answer that is not streamed; it is held until whole, so that it can fail as one."""

    log_prompts: bool = False
    """Whether the log shows the words of engines' errors, which may quote prompts and answers."""
    retry_after_s: int = 5
    """What a 503 tells the client to wait; clients ignore more than 120 s."""
    drain_timeout_s: float = 30.0
    """Requests in flight may take this long to end once the gateway stops."""
    control_timeout_s: float = 2.0
    """A replica's control channel must answer within this time."""

    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    """How many requests it lets in, and how long the others may wait."""
    failures: FailureSettings = field(default_factory=FailureSettings)
    """How it deals with replicas that fail."""
    keys: KeySettings = field(default_factory=KeySettings)
    """API keys, the admin key, and the tenants' cache salts."""
    fleet: FleetSettings = field(default_factory=FleetSettings)
    """Remote replicas, and how they are watched."""

    def __post_init__(self) -> None:
        for name in ("port", "admin_port"):
            if not 0 <= getattr(self, name) <= 65_535:
                raise ValueError(f"{name} is {getattr(self, name)}; allowed are 0 to 65535")
        if self.workers < 1:
            raise ValueError(f"workers is {self.workers}; it must be at least 1")
        for name in (one.name for one in fields(self)):
            value = getattr(self, name)
            if name.startswith("max_") and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
            if name.endswith("_timeout_s") and not value > 0:
                raise ValueError(f"{name} is {value}; it must be more than 0 seconds")
        if not 1 <= self.retry_after_s <= 120:
            raise ValueError(f"retry_after_s is {self.retry_after_s}; allowed are 1 to 120 seconds")
        if self.keys.admin_key_file is None and not is_loopback(self.admin_host):
            raise ValueError(
                f"admin_host is {self.admin_host!r}, where others can reach the admin port, and "
                "there is no key for it; set keys.admin_key_file (paceline keys create --admin "
                "makes the file), or set admin_host to 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    """Whether this address can be reached from this machine alone, as far as its text says."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
