"""The configuration: one frozen tree, read from a file, the environment and flags."""

from paceline.config.sources import ConfigError, LoadedSettings, Origin, load_settings
from paceline.config.tree import (
    BUNDLED,
    DtypeName,
    EngineSettings,
    KeysSettings,
    ServerSettings,
    Settings,
    SloSettings,
)

__all__ = [
    "BUNDLED",
    "ConfigError",
    "DtypeName",
    "EngineSettings",
    "KeysSettings",
    "LoadedSettings",
    "Origin",
    "ServerSettings",
    "Settings",
    "SloSettings",
    "load_settings",
]
