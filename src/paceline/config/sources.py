"""Load the settings from the file, the environment and the flags, with the origin of each value.

A later layer wins: the file (`paceline.yaml` in the working folder, or the given one), the
environment (`PACELINE_SERVER__PORT=8080`), the flags. No other code reads the environment for
settings. All errors are reported at once.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from paceline.config.tree import Settings

DEFAULT_FILE = Path("paceline.yaml")
ENV_PREFIX = "PACELINE_"

Key = tuple[str, ...]
"""Path of a setting in the tree, for example ("server", "port")."""


class ConfigError(Exception):
    """The configuration is invalid; the message names each error and where to fix it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Source of a value."""

    layer: Literal["default", "file", "environment", "flag"]
    detail: str = ""
    """The file, the variable or the flag."""

    def __str__(self) -> str:
        return f"{self.layer} {self.detail}".strip()


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The effective settings, and the origin of each that is not a default."""

    settings: Settings
    origins: Mapping[Key, Origin]

    def origin(self, key: Key) -> Origin:
        return self.origins.get(key, DEFAULT)


def load_settings(
    flags: Mapping[Key, tuple[str, Any]],
    environ: Mapping[str, str],
    file: Path | None = None,
) -> LoadedSettings:
    """Merge the layers and check the result. Raises ConfigError, which lists all errors.

    `flags` maps a setting to (the flag's name, its value) and holds only flags that were given.
    Without `file`, `paceline.yaml` is read if it exists.
    """
    values: dict[Key, Any] = {}
    origins: dict[Key, Origin] = {}
    path = file or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    if path is not None:
        for key, value in _flatten(_read_file(path)):
            values[key], origins[key] = value, Origin("file", str(path))
    for name, key, text in _environment(environ):
        values[key], origins[key] = _parse(text), Origin("environment", name)
    for key, (flag, value) in flags.items():
        values[key], origins[key] = value, Origin("flag", flag)
    unknown = [_describe_unknown(key, origins[key]) for key in values if key not in SETTING_KEYS]
    if unknown:
        raise ConfigError("\n".join(unknown))
    try:
        settings = Settings.model_validate(_nest(values))
    except ValidationError as error:
        raise ConfigError(
            "\n".join(_describe(detail, origins) for detail in error.errors())
        ) from None
    return LoadedSettings(settings, origins)


def setting_keys(model: type[BaseModel] = Settings, prefix: Key = ()) -> Iterator[Key]:
    """The keys of all settings, in the order of the tree."""
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from setting_keys(annotation, (*prefix, name))
        else:
            yield (*prefix, name)


SETTING_KEYS: Sequence[Key] = tuple(setting_keys())


def _read_file(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}; give an existing file with --config"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path} contains a {type(content).__name__}; it must contain a mapping of sections"
        )
    return content


def _flatten(tree: Mapping[Any, Any], prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
    sections = {key[: len(prefix) + 1] for key in SETTING_KEYS if len(key) > len(prefix) + 1}
    for name, value in tree.items():
        key = (*prefix, str(name))
        if key in sections and isinstance(value, dict):
            yield from _flatten(value, key)
        elif key in sections and value is None:
            continue  # a section without settings
        else:
            yield key, value


def _environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Key, str]]:
    """Settings from variables named PACELINE_<SECTION>__<SETTING>, in upper or lower case.

    Variables without the double underscore are not settings: Kubernetes, for example, sets
    PACELINE_PORT in every pod of a namespace that has a service called paceline.
    """
    for name in sorted(environ):
        path = name.removeprefix(ENV_PREFIX)
        if path != name and "__" in path:
            yield name, tuple(path.lower().split("__")), environ[name]


def _parse(text: str) -> Any:
    """JSON for lists and mappings; pydantic converts everything else."""
    if text[:1] in "[{" and text:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return None if text == "" else text


def _nest(values: Mapping[Key, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        node = tree
        for part in key[:-1]:
            node = node.setdefault(part, {})
        node[key[-1]] = value
    return tree


def _describe_unknown(key: Key, origin: Origin) -> str:
    given = ".".join(key)
    names = [".".join(known) for known in SETTING_KEYS]
    near = (
        # The right name in a wrong section or none; else a typo in the whole key or its last part.
        [name for name, known in zip(names, SETTING_KEYS, strict=True) if known[-1] == key[-1]]
        or difflib.get_close_matches(given, names, n=1)
        or difflib.get_close_matches(key[-1], names, n=1)
    )
    hint = (
        f"; did you mean {near[0]}?"
        if near
        else "; `paceline serve --print-config` lists all settings"
    )
    return f"{given} is not a setting (from {origin}){hint}"


def _describe(detail: ErrorDetails, origins: Mapping[Key, Origin]) -> str:
    location = tuple(str(part) for part in detail["loc"])
    # An error inside a list has a longer location than the setting that it belongs to.
    key = next((k for k in SETTING_KEYS if location[: len(k)] == k), location)
    origin = origins.get(key, DEFAULT)
    message = detail["msg"].removeprefix("Value error, ")
    if (
        detail["type"] == "extra_forbidden"
    ):  # only inside a list; other unknown keys were reported before
        return f"{'.'.join(location)} is not a setting (from {origin}); see docs/configuration.md"
    if detail["type"] == "value_error":
        where = f" (from {origin})" if key in origins else ""
        return f"{'.'.join(location)}{where}: {message}"
    name = location if key and key[0] == "replicas" else key
    return f"{'.'.join(name)} is {detail['input']!r} (from {origin}): {message}"
