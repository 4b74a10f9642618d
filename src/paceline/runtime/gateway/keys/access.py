"""`DataAccess` and `AdminAccess`: authentication of requests on the data port and the admin port.

Both answer from memory, and check the file of keys at most once per second.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from paceline.runtime.gateway.http.asgi import Scope, header
from paceline.runtime.gateway.http.errors import Problem, Refusal
from paceline.runtime.gateway.http.listening import listen_address
from paceline.runtime.gateway.keys.file import KeyFile
from paceline.runtime.gateway.keys.hosts import is_trusted_host
from paceline.runtime.gateway.keys.ring import Tenant, unauthorized
from paceline.runtime.gateway.keys.roles import Role
from paceline.runtime.gateway.keys.salt import read_or_create_secret, salt_of
from paceline.runtime.gateway.settings import GatewaySettings

logger = logging.getLogger(__name__)

_HOST_NOT_ALLOWED = Problem(
    403,
    "The Host header must name localhost, an IP address, server.host or one of "
    "server.allowed_hosts, because this port requires no key (keys.file).",
    "host_not_allowed",
    closes_connection=True,
)

_ADMIN_HOST_NOT_ALLOWED = Problem(
    403,
    "The Host header must name localhost, an IP address or the configured server.admin_host.",
    "host_not_allowed",
)


class DataAccess:
    """Authentication on the data port. Raises `KeysUnusable` when its files cannot be used."""

    def __init__(self, settings: GatewaySettings) -> None:
        keys = settings.keys
        self._keys = None if keys.file is None else KeyFile(keys.file)
        self._checks_host = keys.file is None and (
            is_on_loopback(settings.host) or bool(settings.allowed_hosts)
        )
        self._hosts = {settings.host.lower(), *map(str.lower, settings.allowed_hosts)}
        self._secret = None if keys.salt_path is None else read_or_create_secret(keys.salt_path)
        if self._keys is None and not is_on_loopback(settings.host):
            logger.warning(
                "the data port listens on %s and needs no key, so every host that can connect may "
                "use it; set keys.file to require keys",
                settings.host,
            )

    def authenticate(self, scope: Scope) -> Tenant | None:
        """The tenant of this request; None when no keys are set. Raises `Refusal` (401, 403)."""
        if self._checks_host and not is_trusted_host(header(scope, b"host"), self._hosts):
            raise Refusal(_HOST_NOT_ALLOWED)
        return None if self._keys is None else _authenticate(self._keys, scope)

    def cache_salt(self, tenant: Tenant | None) -> str | None:
        """What separates this tenant in the engines' prefix caches; None when nothing does."""
        if tenant is None or self._secret is None:
            return None
        return salt_of(self._secret, tenant.name)


@dataclass(frozen=True, slots=True)
class Operator:
    """The sender of a request to the admin port."""

    role: Role
    may_name_any_host: bool
    """Whether the Host header needs no check."""
    name: str | None = None
    """Holder of the key; None where none is required."""
    key_id: str | None = None


class AdminAccess:
    """Authentication on the admin port. Raises `KeysUnusable` when its file cannot be used."""

    def __init__(self, settings: GatewaySettings) -> None:
        path = settings.keys.admin_key_file
        self._keys = None if path is None else KeyFile(path, settings.keys.file)
        self._open_paths = () if settings.keys.metrics_need_key else ("/metrics",)
        self._is_on_network = not is_on_loopback(settings.admin_host)
        self._host = settings.admin_host.lower()

    @property
    def needs_key(self) -> bool:
        """Whether the port requires a key."""
        return self._keys is not None

    def authenticate(self, scope: Scope) -> Operator:
        """The sender of this request. Raises `Refusal` (401).

        While the port listens on loopback only, the Host header excludes web pages whose name
        resolves to this machine (DNS rebinding); such a page has no key either.
        """
        if self._keys is None:
            return Operator(Role.ADMIN, self._is_on_network)
        if scope["path"] in self._open_paths:
            return Operator(Role.READ, self._is_on_network)
        return _operator(_authenticate(self._keys, scope))

    def operator_with(self, key: str) -> Operator | None:
        """The holder of this key; None where it is not valid, or none is required."""
        if self._keys is None:
            return None
        found = self._keys.ring().authenticate(f"Bearer {key}", time.time())
        return None if isinstance(found, Problem) else _operator(found)

    def operator_of(self, key_id: str) -> Operator | None:
        """The holder of the key with this id, which was authenticated before; None once it is not
        valid any more."""
        if self._keys is None:
            return None
        found = self._keys.ring().holder_of(key_id, time.time())
        return None if found is None else _operator(found)

    def check_host(self, scope: Scope, operator: Operator) -> None:
        """Refuse a Host header that may come from a web page of another site. Raises `Refusal`."""
        if not operator.may_name_any_host and not is_trusted_host(
            header(scope, b"host"), (self._host,)
        ):
            raise Refusal(_ADMIN_HOST_NOT_ALLOWED)


def is_on_loopback(host: str) -> bool:
    """Whether a port on this host can be reached from this machine only. Raises `HostUnknown`."""
    return listen_address(host).is_loopback


def _operator(holder: Tenant) -> Operator:
    return Operator(holder.role, True, holder.name, holder.key_id)


def _authenticate(keys: KeyFile, scope: Scope) -> Tenant:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    found: Tenant | Problem
    if len(given) > 1:
        found = unauthorized("The request has more than one Authorization header; send one.")
    else:
        authorization = given[0].decode("latin-1") if given else None
        found = keys.ring().authenticate(authorization, time.time())
    if isinstance(found, Problem):
        raise Refusal(found)
    return found
