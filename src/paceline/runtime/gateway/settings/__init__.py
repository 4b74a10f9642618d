"""The gateway's settings: frozen values that check themselves and import nothing above them.

`GatewaySettings` is the whole; the others are its parts. The caller fills them (`paceline serve`
does so from the configuration). Nothing here reads a file or the environment.
"""

from paceline.runtime.gateway.settings.admission import AdmissionSettings
from paceline.runtime.gateway.settings.capture import CaptureSettings
from paceline.runtime.gateway.settings.failures import FailureSettings
from paceline.runtime.gateway.settings.fleet import FleetSettings
from paceline.runtime.gateway.settings.gateway import GatewaySettings
from paceline.runtime.gateway.settings.json_limits import JsonLimits
from paceline.runtime.gateway.settings.keys import KeySettings
from paceline.runtime.gateway.settings.replica_entry import ReplicaEntry

__all__ = [
    "AdmissionSettings",
    "CaptureSettings",
    "FailureSettings",
    "FleetSettings",
    "GatewaySettings",
    "JsonLimits",
    "KeySettings",
    "ReplicaEntry",
]
