"""Find out whether a gateway could open what its settings name: ports, key files, folders, hooks.

A start calls this first, and a check of the settings calls nothing else, so both refuse the same.
It leaves nothing: no file, no folder, no port on which a client could connect.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Collection, Sequence

from paceline.runtime.gateway.admin.audit import check_audit_file
from paceline.runtime.gateway.capture.prompt_capture import check_capture
from paceline.runtime.gateway.http.listening import PortTaken, bind, is_bound_to
from paceline.runtime.gateway.keys.access import is_on_loopback
from paceline.runtime.gateway.keys.file import check_key_file
from paceline.runtime.gateway.keys.salt import check_secret
from paceline.runtime.gateway.leaving_notice import PortAddress
from paceline.runtime.gateway.settings import GatewaySettings


def check_files(settings: GatewaySettings) -> None:
    """Raise `KeysUnusable` or `CaptureUnusable` unless every file can be used."""
    keys = settings.keys
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
    found: list[tuple[str, PortAddress]] = []
    for host, port, setting in settings.ports:
        address = PortAddress.of(host, port, setting)
        needs_key = setting == "admin_port" and not is_on_loopback(host)
        if needs_key and settings.keys.admin_key_file is None:
            raise ValueError(
                f"server.admin_host is {host!r}, which is {address.ip}, where other machines can "
                "reach the admin port, and there is no key for it; set keys.admin_key_file, or set "
                "server.admin_host to 127.0.0.1"
            )
        for other, other_address in found:
            if address.conflicts_with(other_address):
                raise ValueError(
                    f"server.{other} and server.{setting} are both {port}; give each port its own "
                    f"(--{other.replace('_', '-')}, --{setting.replace('_', '-')})"
                )
        found.append((setting, address))


def find_taken_ports(
    settings: GatewaySettings,
    offered: Sequence[socket.socket] = (),
    leaving: Collection[PortAddress] = (),
) -> dict[str, PortTaken]:
    """Why ports are not free or may not be opened by this user, by their settings.

    A start has those of the process that it takes over from, whose `offered` sockets are in the
    order of the ports, and those that a `leaving` process frees.
    """
    taken: dict[str, PortTaken] = {}
    with contextlib.ExitStack() as stack:
        for index, (host, port, setting) in enumerate(settings.ports):
            address = PortAddress.of(host, port, setting)
            is_offered = index < len(offered) and is_bound_to(offered[index], host, port)
            is_leaving = any(map(address.conflicts_with, leaving))
            if not is_offered and not is_leaving:
                try:
                    stack.enter_context(bind(host, port, setting, listens=False))
                except PortTaken as error:
                    taken[setting] = error
    return taken
