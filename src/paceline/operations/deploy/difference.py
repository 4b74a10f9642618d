"""Compare two rendered deployments: which resources change, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from paceline.foundation.files.strict_files import StrictFileError, load_yaml_documents
from paceline.operations.deploy.values import DeployError

Resource = Mapping[str, Any]

_KUSTOMIZATION = "kustomization.yaml"


@dataclass(frozen=True, slots=True)
class Change:
    """One resource that is added, removed or changed."""

    kind: Literal["added", "removed", "changed"]
    resource: str
    """Such as Deployment/engine-main."""
    fields: tuple[str, ...] = ()
    """Of a changed resource: path, old and new value, in the order of the paths."""


def resources_of(files: Mapping[str, str]) -> dict[str, Resource]:
    """The resources that `kubectl apply -k` applies, by kind and name.

    `files` is the text of every file by its path. Raises `DeployError` for a file that
    `paceline deploy render` would not write.
    """
    documents = _documents(_KUSTOMIZATION, files[_KUSTOMIZATION])
    names = documents[0].get("resources") if documents and isinstance(documents[0], dict) else None
    if not isinstance(names, list):
        raise DeployError(f"{_KUSTOMIZATION} has no list of resources")
    found: dict[str, Resource] = {}
    for name in names:
        if not isinstance(name, str) or name not in files:
            raise DeployError(f"{_KUSTOMIZATION} names {name}, which is not there")
        for document in _documents(name, files[name]):
            try:
                found[f"{document['kind']}/{document['metadata']['name']}"] = document
            except (KeyError, TypeError):
                raise DeployError(f"{name} has a document that is no resource") from None
    return found


def _documents(name: str, text: str) -> list[Any]:
    try:
        return load_yaml_documents(text)
    except StrictFileError as error:
        raise DeployError(f"{name} is not valid YAML: {error}") from None


def compare(old: Mapping[str, Resource], new: Mapping[str, Resource]) -> list[Change]:
    """Every change, sorted by resource.

    >>> compare({}, {"Service/a": {}})
    [Change(kind='added', resource='Service/a', fields=())]
    """
    changes = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            changes.append(Change("removed", name))
        elif name not in old:
            changes.append(Change("added", name))
        elif old[name] != new[name]:
            before, after = dict(_leaves(old[name])), dict(_leaves(new[name]))
            changes.append(Change("changed", name, tuple(_changed_fields(before, after))))
    return changes


def _changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old != new:
            yield f"{path}: {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    first, newline, _ = text.partition("\n")
    return f"{first} …" if newline else first


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar with its path; entries of lists that have a name are found by it."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            name = value.get("name") if isinstance(value, Mapping) else None
            yield from _leaves(value, f"{path}[{index if name is None else name}]")
    elif isinstance(node, str) and path.endswith((".yaml", ".model.json")):
        yield from _leaves_of_yaml(node, path)
    else:
        yield path, node


def _leaves_of_yaml(text: str, path: str) -> Iterator[tuple[str, Any]]:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        document = None
    if isinstance(document, Mapping | list):
        yield from _leaves(document, path)
    else:
        yield path, text
