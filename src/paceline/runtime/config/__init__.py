"""The configuration: one frozen tree of settings, loaded from a file, the environment and flags."""

from paceline.runtime.config.sources import (
    ConfigError,
    LoadedSettings,
    Origin,
    load_settings,
    read_file,
)
from paceline.runtime.config.tree import (
    DialectName,
    DtypeName,
    EngineSettings,
    FleetSettings,
    KeysSettings,
    ReplicaSettings,
    ServerSettings,
    Settings,
    SloSettings,
)

__all__ = [
    "ConfigError",
    "DialectName",
    "DtypeName",
    "EngineSettings",
    "FleetSettings",
    "KeysSettings",
    "LoadedSettings",
    "Origin",
    "ReplicaSettings",
    "ServerSettings",
    "Settings",
    "SloSettings",
    "load_settings",
    "read_file",
]
