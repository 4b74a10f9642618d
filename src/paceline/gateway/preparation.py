"""Find out whether a gateway could open what its settings name: ports, key files, folders, hooks.

A start calls this first, and a check of the settings calls nothing else, so both refuse the same.
It leaves nothing: no file, no folder, no port on which a client could connect.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from paceline.gateway.admin.audit import check_audit_file
from paceline.gateway.capture.prompt_capture import check_capture
from paceline.gateway.http.listening import bind, is_bound_to, listen_address
from paceline.gateway.keys.file import check_key_file
from paceline.gateway.keys.salt import check_secret
from paceline.gateway.leaving_notice import PortAddress, address_of
from paceline.gateway.settings import GatewaySettings

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def check_files(settings: GatewaySettings) -> None:
    """Raise `KeysUnusable`, `CaptureUnusable` or ValueError unless every file can be used."""
    keys = settings.keys
    _refuse_shared_files(settings)
    if keys.file is not None:
        check_key_file(keys.file)
    if keys.admin_key_file is not None:
        check_key_file(keys.admin_key_file, keys.file)
    if keys.salt_path is not None:
        check_secret(keys.salt_path)
    check_audit_file(keys.audit_file)
    if settings.capture.folder is not None:
        check_capture(settings.capture)


def check_addresses(settings: GatewaySettings) -> None:
    """Raise `HostUnknown` or ValueError unless the ports have addresses that differ.

    A name of this machine, such as localhost, may stand for an address that others can reach.
    """
    found: list[tuple[str, _Address, int]] = []
    for host, port, setting in settings.ports:
        address = listen_address(host, port, setting)
        needs_key = setting == "admin_port" and not address.is_loopback
        if needs_key and settings.keys.admin_key_file is None:
            raise ValueError(
                f"server.admin_host is {host!r}, which is {address}, where other machines can "
                "reach the admin port, and there is no key for it; set keys.admin_key_file, or set "
                "server.admin_host to 127.0.0.1"
            )
        for other, other_address, other_port in found:
            if port and port == other_port and _overlap(address, other_address):
                raise ValueError(
                    f"server.{other} and server.{setting} are both {port}; give each port its own "
                    f"(--{other.replace('_', '-')}, --{setting.replace('_', '-')})"
                )
        found.append((setting, address, port))


def check_ports(
    settings: GatewaySettings,
    offered: Sequence[socket.socket] = (),
    leaving: Collection[PortAddress] = (),
) -> None:
    """Raise `PortTaken` unless every port is free and may be opened by this user.

    A start has those of the process that it takes over from, whose `offered` sockets are in the
    order of the ports, and those that a `leaving` process frees.
    """
    with contextlib.ExitStack() as stack:
        for index, (host, port, setting) in enumerate(settings.ports):
            address = address_of(host, port)
            is_offered = index < len(offered) and is_bound_to(offered[index], host, port)
            is_leaving = address is not None and any(map(address.conflicts_with, leaving))
            if not is_offered and not is_leaving:
                stack.enter_context(bind(host, port, setting, listens=False))


def _overlap(one: _Address, other: _Address) -> bool:
    """Whether one port cannot be opened on both; :: stands for all addresses of both versions."""
    return one == other or any(
        wide.is_unspecified and (wide.version == 6 or narrow.version == 4)
        for wide, narrow in ((one, other), (other, one))
    )


def _refuse_shared_files(settings: GatewaySettings) -> None:
    """One file must not be two settings: keys of clients without a role would open the admin port,
    and lines of the audit would make a file of keys unusable."""
    keys = settings.keys
    paths = {
        "file": keys.file,
        "admin_key_file": keys.admin_key_file,
        "salt_file": keys.salt_path,
        "audit_file": keys.audit_file,
    }
    seen: dict[object, str] = {}
    for name, path in paths.items():
        for identity in () if path is None else _identities(path):
            if identity in seen:
                raise ValueError(
                    f"keys.{seen[identity]} and keys.{name} are the same file, {path}; give each "
                    "its own"
                )
            seen[identity] = name


def _identities(path: Path) -> Iterator[object]:
    """What two names of one file have in common: the file itself, if it exists, and its place."""
    with contextlib.suppress(OSError):
        status = path.stat()
        yield status.st_dev, status.st_ino
    yield os.path.realpath(path)
