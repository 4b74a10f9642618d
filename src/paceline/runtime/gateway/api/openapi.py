"""Render the OpenAPI description of the data port, from the tables that the checks use.

`python -m paceline.runtime.gateway.api.openapi > docs/openapi.yaml` writes the committed copy.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import yaml

from paceline.runtime.gateway.requests.routes import ROUTES, Route

_ERRORS = {
    "400": "The request is invalid; `param` names the field.",
    "401": "The request has no key, or an unknown one.",
    "403": "The key does not allow this.",
    "404": "The model is not served, or its engine does not serve this route.",
    "405": "The path does not allow this method.",
    "408": "The headers or the body were not complete in time.",
    "413": "The body is too large.",
    "415": "The body is not uncompressed JSON.",
    "429": "Too many requests; `Retry-After` says when to retry.",
    "431": "The headers are too large.",
    "500": "The engine or the gateway failed; the same request is likely to fail again.",
    "503": "No replica can take the request at the moment; `Retry-After` says when to retry.",
    "504": "The answer was not complete in time.",
}
_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "additionalProperties": False,
            "properties": {
                "message": {"type": "string", "minLength": 1},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "string"},
            },
        }
    },
}
_MODEL_SCHEMA = {
    "type": "object",
    "required": ["id", "object", "created", "owned_by", "max_model_len"],
    "properties": {
        "id": {"type": "string"},
        "object": {"enum": ["model"]},
        "created": {"type": "integer"},
        "owned_by": {"type": "string"},
        "max_model_len": {"type": ["integer", "null"]},
    },
}


def render_openapi() -> dict[str, object]:
    """The whole description as a dict."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Paceline",
            "version": "1",
            "description": "Fields that are not listed are refused. Null counts as not given.",
        },
        "paths": {
            **{route.path: {"post": _describe_route(route)} for route in ROUTES},
            "/v1/models": {
                "get": _describe_get(
                    "The served models.",
                    {
                        "type": "object",
                        "required": ["object", "data"],
                        "properties": {
                            "object": {"enum": ["list"]},
                            "data": {"type": "array", "items": _ref("Model")},
                        },
                    },
                )
            },
            "/v1/models/{model}": {
                "parameters": [
                    {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "get": _describe_get("One model.", _ref("Model"), "404"),
            },
            "/health": {"get": _describe_get("The process is alive.", {"type": "object"})},
            "/ready": {"get": _describe_get("A replica can serve.", {"type": "object"}, "503")},
        },
        "components": {
            "responses": {
                status: {
                    "description": meaning,
                    "content": {"application/json": {"schema": _ref("Error")}},
                }
                for status, meaning in _ERRORS.items()
            },
            "schemas": {
                "Error": _ERROR_SCHEMA,
                "Model": _MODEL_SCHEMA,
                **{_name(route): _describe_body(route) for route in ROUTES},
            },
        },
    }


def _describe_route(route: Route) -> dict[str, object]:
    content: dict[str, object] = {"application/json": {"schema": {"type": "object"}}}
    answer = "The answer."
    if "stream" in route.fields:
        answer += " If `stream` is true, server-sent events instead."
        # No schema: in OpenAPI 3.1 it would describe the whole body, but readers expect one event.
        content["text/event-stream"] = {}
    return {
        "operationId": _name(route),
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _ref(_name(route))}},
        },
        "responses": {"200": {"description": answer, "content": content}, **_errors()},
    }


def _describe_body(route: Route) -> dict[str, object]:
    return {
        "type": "object",
        "required": ["model", route.prompt_param],
        "additionalProperties": False,
        "properties": {
            name: check.schema if name in ("model", route.prompt_param) else _or_null(check.schema)
            for name, check in sorted(route.fields.items())
        },
    }


def _describe_get(
    description: str, schema: Mapping[str, object], *errors: str
) -> dict[str, object]:
    content = {"application/json": {"schema": schema}}
    return {
        "responses": {"200": {"description": description, "content": content}, **_errors(*errors)}
    }


def _errors(*statuses: str) -> dict[str, object]:
    return {status: {"$ref": f"#/components/responses/{status}"} for status in statuses or _ERRORS}


def _or_null(schema: Mapping[str, object]) -> dict[str, object]:
    return {"anyOf": [schema, {"type": "null"}]}


def _ref(name: str) -> dict[str, object]:
    return {"$ref": f"#/components/schemas/{name}"}


def _name(route: Route) -> str:
    """`/v1/chat/completions` becomes ChatCompletions."""
    return "".join(part.capitalize() for part in route.path.split("/")[2:])


class _PlainDumper(yaml.SafeDumper):
    """Writes no anchors: the tables share checks, and anchors would only hide them."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def render_yaml() -> str:
    return yaml.dump(
        render_openapi(), Dumper=_PlainDumper, sort_keys=False, width=100, allow_unicode=True
    )


if __name__ == "__main__":
    sys.stdout.write(render_yaml())
