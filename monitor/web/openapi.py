"""The API's description, made from the route table and the structs.

``@describes`` under a route says what goes in and out; ``document`` collects it.
What is described is what is decoded: the schemas come from the same structs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from monitor import __version__

H = TypeVar("H", bound=Callable[..., Any])


class Operation(msgspec.Struct, frozen=True):
    """What one route takes and gives."""

    body: Any = None
    reply: Any = None
    status: int = 200
    query: Any = None
    media: str = "application/json"


class ErrorBody(msgspec.Struct, frozen=True, rename="camel"):
    """Every error's body."""

    error: str
    field: str | None = None
    request_id: str | None = None


def describes(
    *,
    body: Any = None,
    reply: Any = None,
    status: int = 200,
    query: Any = None,
    media: str = "application/json",
) -> Callable[[H], H]:
    """Describe a handler: types of body, reply and query, status of success, media of the reply."""

    def mark(handler: H) -> H:
        handler.__operation__ = Operation(body, reply, status, query, media)  # type: ignore[attr-defined]
        return handler

    return mark


def operation_of(handler: Any) -> Operation | None:
    """Return what ``@describes`` said of *handler*."""
    found: Operation | None = getattr(handler, "__operation__", None)
    return found


def _types(operations: Iterable[Operation]) -> list[Any]:
    seen: dict[str, Any] = {}
    for operation in operations:
        for type_ in (operation.body, operation.reply, operation.query):
            if type_ is not None:
                seen.setdefault(repr(type_), type_)
    return list(seen.values())


def document(
    app: web.Application, security_of: Callable[[Any], list[dict[str, list[str]]]]
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of all routes of *app*.

    Args:
        app: The application with all its routes.
        security_of: Gives the security requirement objects of a handler.
    """
    described = [
        (route, operation)
        for route in app.router.routes()
        if route.method != "HEAD" and (operation := operation_of(route.handler)) is not None
    ]
    types = [*_types(operation for _, operation in described), ErrorBody]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    by_type = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route, operation in described:
        path = route.resource.canonical if route.resource is not None else ""
        paths.setdefault(path, {})[route.method.lower()] = _entry(
            route, path, operation, by_type, components, security_of(route.handler)
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "monitor", "version": __version__},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "auth_token"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "agentToken": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _entry(
    route: web.AbstractRoute,
    path: str,
    operation: Operation,
    schemas: dict[str, Any],
    components: dict[str, Any],
    security: list[dict[str, list[str]]],
) -> dict[str, Any]:
    lines = (inspect.getdoc(route.handler) or "").split("\n\n", 1)
    entry: dict[str, Any] = {
        # By method and path: one handler may stand behind several of both.
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{path}").strip("_"),
        "tags": [route.handler.__module__.split(".")[1]],
        "summary": " ".join(lines[0].split()),
        "security": security,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)", path)
        ],
        "responses": {str(operation.status): _response(operation, schemas)},
    }
    if len(lines) > 1:
        entry["description"] = lines[1]
    if operation.query is not None:
        entry["parameters"] += _query_parameters(schemas[repr(operation.query)], components)
    if operation.body is not None:
        entry["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schemas[repr(operation.body)]}},
        }
    elif operation.query is not None and route.method == "POST":
        form = {"application/x-www-form-urlencoded": {"schema": schemas[repr(operation.query)]}}
        entry["requestBody"] = {"required": False, "content": form}
    error = {"application/json": {"schema": schemas[repr(ErrorBody)]}}
    entry["responses"]["default"] = {"description": "Error", "content": error}
    return entry


def _response(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    if operation.status == 204:
        return {"description": "Done"}
    schema = schemas[repr(operation.reply)] if operation.reply is not None else {}
    return {"description": "Success", "content": {operation.media: {"schema": schema}}}


def _query_parameters(schema: dict[str, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    struct = components[schema["$ref"].rsplit("/", 1)[1]]
    required = struct.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": shape}
        for name, shape in struct["properties"].items()
    ]
