"""Load the settings from the file, the environment and the flags, with the origin of each value.

A later layer wins: the file (`paceline.yaml` in the working folder, or the given one), the
environment (`PACELINE_SERVER__PORT=8080`), the flags. No other code reads the environment for
settings. An empty or unknown setting is an error, also where a later layer has a value.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from paceline.foundation.command_line.near_names import did_you_mean, nearest
from paceline.foundation.files.bounded_reading import read_bounded
from paceline.foundation.files.strict_files import StrictFileError, load_json, load_yaml
from paceline.runtime.config.environment import PREFIX, misspelt
from paceline.runtime.config.likeness import is_meant_as_settings_file
from paceline.runtime.config.protection import is_empty, why_empty_refused
from paceline.runtime.config.tree import ReplicaSettings, Settings

DEFAULT_FILE = Path("paceline.yaml")
_MAX_FILE_BYTES = 1024 * 1024
"""A thousand replicas, with a margin. Chosen empirically."""
_PIPE_S = 30.0
"""Time limit for a command that writes the settings into a pipe. Chosen empirically."""

Key = tuple[str, ...]
"""Path of a setting in the tree, for example ("server", "port")."""


_MAY_HOLD_SECRETS = frozenset({("replicas",), ("engine", "vllm_args")})
"""Their values are in no message: they may be API keys in the wrong place."""
_MAX_SHOWN_CHARS = 100


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
    path = _find_file() if file is None else file
    layers: list[tuple[Key, Any, Origin]] = []
    if path is not None:
        origin = Origin("file", str(path))
        layers += [(key, value, origin) for key, value in _flatten(read_file(path))]
    layers += [
        (key, _parse(name, environ[name]), Origin("environment", name))
        for name, key in VARIABLES.items()
        if name in environ
    ]
    layers += [(key, value, Origin("flag", flag)) for key, (flag, value) in flags.items()]
    wrong = [sentence for one in layers for sentence in _errors_of(*one)]
    wrong += misspelt(environ, VARIABLES)
    if wrong:
        raise ConfigError("\n".join(wrong))
    values = {key: value for key, value, _ in layers}
    origins = {key: origin for key, _, origin in layers}
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


def variable_of(key: Key) -> str:
    """The name of a setting in the environment."""
    return PREFIX + "__".join(key).upper()


SETTING_KEYS: Sequence[Key] = tuple(setting_keys())
VARIABLES: Mapping[str, Key] = {variable_of(key): key for key in SETTING_KEYS if len(key) > 1}
"""The settings by their names in the environment; `replicas` has none."""
SECTIONS = frozenset(key[:-1] for key in SETTING_KEYS if len(key) > 1)


def read_file(path: Path) -> Mapping[str, Any]:
    """The sections of a settings file, unchecked. Raises ConfigError if it has none."""
    if not str(path).strip():
        raise ConfigError("the name of the settings file is empty; give an existing file")
    try:
        _, text = read_bounded(path, _MAX_FILE_BYTES, _PIPE_S)
        content = load_yaml(text.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}; give an existing file with --config"
        ) from None
    except (StrictFileError, ValueError) as error:
        raise ConfigError(f"{path} is not valid: {error}") from None
    if content is None or content == {}:
        raise ConfigError(
            f"{path} contains no settings; it may have been cut off. Write at least one, or remove "
            "the file to use the defaults"
        )
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path} contains a {type(content).__name__}; it must contain a mapping of sections"
        )
    return content


def _find_file() -> Path | None:
    """The settings file of the working folder. Raises ConfigError for one with a similar name, and
    where it cannot be known whether there is one."""
    try:
        os.lstat(DEFAULT_FILE)  # a link that leads nowhere is an error, not a missing file
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ConfigError(_folder_unusable("searched", error)) from None
    else:
        return DEFAULT_FILE
    try:
        names = sorted(os.listdir())
    except OSError as error:
        raise ConfigError(_folder_unusable("listed", error)) from None
    for name in filter(is_meant_as_settings_file, names):
        raise ConfigError(
            f"the working folder has {name!a}, which is not read; rename it to {DEFAULT_FILE}, "
            f"or give it with --config {shlex.quote(name)}"
        )
    return None


def _folder_unusable(verb: str, error: OSError) -> str:
    return (
        f"the working folder cannot be {verb} ({error.strerror}), so it is unknown whether it has "
        f"a {DEFAULT_FILE}; start in another folder, or give the file with --config"
    )


def _flatten(tree: Mapping[Any, Any], prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
    """Every setting with its value; a section that holds no mapping is left whole."""
    for name, value in tree.items():
        key = (*prefix, str(name))
        if key in SECTIONS and isinstance(value, dict) and value:
            yield from _flatten(value, key)
        else:
            yield key, value


def _errors_of(key: Key, value: Any, origin: Origin) -> Iterator[str]:
    """What is wrong with one value, as far as its name and its emptiness show."""
    name = ".".join(key)
    if key in SECTIONS or (key == ("replicas",) and value is None):
        given = "empty" if is_empty(value) else f"a {type(value).__name__}"
        yield f"{name} is {given} (from {origin}); give its settings, or remove the section"
    elif key not in SETTING_KEYS:
        yield _describe_unknown(key, origin)
    elif key == ("replicas",) and isinstance(value, list):
        for index, entry in enumerate(value):
            for field, inner in entry.items() if isinstance(entry, dict) else ():
                reason = why_empty_refused(f"replicas.{field}", inner)
                if reason is not None:
                    reason = reason.removeprefix("replicas.")
                    yield f"replicas.{index}.{reason} (from {origin})"
    elif reason := why_empty_refused(name, value):
        yield f"{reason} (from {origin})"


def _parse(name: str, text: str) -> Any:
    """JSON for lists and mappings; pydantic converts everything else."""
    if text[:1] in ("[", "{"):
        try:
            return load_json(text)
        except StrictFileError as error:
            raise ConfigError(
                f"the environment variable {name} is not valid JSON: {error}"
            ) from None
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
    given = ".".join(key)[:_MAX_SHOWN_CHARS]
    names = {".".join(known): known[-1] for known in SETTING_KEYS}
    by_last = {last: name for name, last in reversed(names.items())}
    near = (
        # The right name in a wrong section or none; else a typo in the whole key or its last part.
        by_last.get(key[-1])
        or nearest(given, [*names, *map(".".join, SECTIONS)])
        or by_last.get(nearest(key[-1], by_last) or "")
    )
    hint = (
        f"; did you mean {near}?"
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
        name = ".".join(location)[:_MAX_SHOWN_CHARS]
        hint = did_you_mean(location[-1], ReplicaSettings.model_fields)
        return f"{name} is not a setting (from {origin}){hint or '; see docs/configuration.md'}"
    if detail["type"] == "value_error":
        where = f" (from {origin})" if key in origins else ""
        return f"{'.'.join(location)}{where}: {message}"
    # Of a Literal: its values, quoted.
    allowed = re.findall(r"'([^']*)'", detail.get("ctx", {}).get("expected", ""))
    message += did_you_mean(detail["input"], allowed)
    if key in _MAY_HOLD_SECRETS:
        given = type(detail["input"]).__name__
        return f"{'.'.join(location)} is a {given} (from {origin}): {message}"
    return f"{'.'.join(key)} is {_shown(detail['input'])} (from {origin}): {message}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"
