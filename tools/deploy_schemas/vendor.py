"""Write tests/unit/deploy/schemas/*.json from packages that carry the schemas of Kubernetes.

usage: PYTHONPATH=tools python -m deploy_schemas.vendor FOLDER

It runs in an environment of its own with the packages of `PACKAGES`; the README in FOLDER names
sources and licences. Of each package only what the manifests use is kept: the kinds, and every type
they refer to, without descriptions. Unknown properties are refused, as `kubectl apply
--validate=strict` does.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = (
    "kubernetes-validate==1.37.0",
    "cloudcoil-models-keda==2.16.1.0",
    "cloudcoil-models-prometheus-operator==0.80.1.0",
)

_KUBERNETES = "v1.37.0-local-strict"
_CORE_KINDS = {
    "ConfigMap": "configmap-v1",
    "Deployment": "deployment-apps-v1",
    "HorizontalPodAutoscaler": "horizontalpodautoscaler-autoscaling-v2",
    "Namespace": "namespace-v1",
    "NetworkPolicy": "networkpolicy-networking-v1",
    "PodDisruptionBudget": "poddisruptionbudget-policy-v1",
    "Service": "service-v1",
    "ServiceAccount": "serviceaccount-v1",
}
_POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
_MODELS = {
    "ScaledObject": "cloudcoil.models.keda.v1alpha1",
    "PodMonitor": "cloudcoil.models.prometheus_operator.v1",
    "PrometheusRule": "cloudcoil.models.prometheus_operator.v1",
}
_NOTES = frozenset({"description", "title", "default"})


def main(folder: Path) -> None:
    """Write one file for the core kinds and one for each custom resource."""
    core = _core_schemas()
    (folder / "kubernetes.json").write_text(_text(core), encoding="utf-8")
    for kind, module in _MODELS.items():
        model = getattr(importlib.import_module(module), kind)
        schema = _strict(_pruned(model.model_json_schema(by_alias=True)))
        (folder / f"{kind.lower()}.json").write_text(_text(schema), encoding="utf-8")


def _core_schemas() -> dict[str, Any]:
    """`kinds`, and under `$defs` every type that they refer to."""
    package = Path(str(importlib.import_module("kubernetes_validate").__file__)).parent
    source = package / "kubernetes-json-schema" / _KUBERNETES
    types = json.loads((source / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
    kinds = {
        kind: json.loads((source / f"{name}.json").read_text(encoding="utf-8"))
        for kind, name in _CORE_KINDS.items()
    }
    used: set[str] = set()
    todo = [_POD_TEMPLATE, *_references(kinds)]
    while todo:
        name = todo.pop()
        if name not in used:
            used.add(name)
            todo += _references(types[name])
    document = {"kinds": kinds, "$defs": {name: types[name] for name in sorted(used)}}
    local: dict[str, Any] = _local(_pruned(document))
    return local


def _references(node: Any) -> Iterator[str]:
    """The names of the types that a schema refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value.rpartition("/")[2]
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _pruned(node: Any, *, names: bool = False) -> Any:
    """Without descriptions and Kubernetes' own keys. `names`: the keys are names of properties."""
    if isinstance(node, dict):
        return {
            key: _pruned(value, names=key in ("properties", "$defs") and not names)
            for key, value in node.items()
            if names or (key not in _NOTES and not key.startswith("x-kubernetes"))
        }
    if isinstance(node, list):
        return [_pruned(value) for value in node]
    return node


def _local(node: Any) -> Any:
    """With references into the document itself."""
    if isinstance(node, dict):
        return {
            key: f"#/$defs/{value.rpartition('/')[2]}" if key == "$ref" else _local(value)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [_local(value) for value in node]
    return node


def _strict(node: Any) -> Any:
    """With unknown properties refused, also by the models that ignore them."""
    if isinstance(node, list):
        return [_strict(value) for value in node]
    if not isinstance(node, dict):
        return node
    strict = {key: _strict(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        strict.setdefault("additionalProperties", False)
    return strict


def _text(schema: Any) -> str:
    return json.dumps(schema, sort_keys=True, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
