"""The routes are those of the documents, and the API's own description tells all of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from monitor.web.openapi import operation_of
from tests.documented_routes import DOCUMENTED, Route, registered

ADDITIONS = Path(__file__).parents[1] / "docs" / "api.md"


def keys(routes: list[Any]) -> set[tuple[str, str]]:
    return {(route.method, route.resource.canonical) for route in routes}


def test_every_registered_route_is_documented():
    undocumented = keys(registered()) - {(row.method, row.path) for row in DOCUMENTED}

    assert not undocumented, "document them and add them to tests/documented_routes.py"


def test_every_documented_route_is_registered():
    present = keys(registered())

    missing = [row for row in DOCUMENTED if row[:2] not in present]

    assert missing == []


def test_no_route_is_documented_or_registered_twice():
    documented = Counter(row[:2] for row in DOCUMENTED)
    present = Counter((route.method, route.resource.canonical) for route in registered())

    assert max(documented.values()) == max(present.values()) == 1


@pytest.mark.parametrize("row", [row for row in DOCUMENTED if row.source == "docs/api.md"], ids=str)
def test_what_the_service_adds_stands_in_its_own_documentation(row: Route):
    assert f"`{row.method} {row.path}`" in ADDITIONS.read_text("utf-8")


@pytest.mark.parametrize(
    "route", registered(), ids=lambda route: f"{route.method} {route.resource.canonical}"
)
def test_every_route_is_described(route: Any):
    assert operation_of(route.handler) is not None, "put @describes(...) under the route"
    assert route.handler.__doc__


async def test_the_description_is_valid_openapi_and_names_every_route(anonymous):
    document = await anonymous.json("/openapi.json")

    validate(document)
    assert document["openapi"].startswith("3.1")
    told = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert told == keys(registered())


async def test_every_operation_of_the_description_has_a_name_of_its_own(anonymous):
    document = await anonymous.json("/openapi.json")

    names = Counter(
        operation["operationId"] for path in document["paths"].values() for operation in path.values()
    )
    assert [name for name, count in names.items() if count > 1] == []


async def test_the_description_says_which_credential_opens_a_route(anonymous):
    paths = (await anonymous.json("/openapi.json"))["paths"]

    assert paths["/healthz"]["get"]["security"] == []
    assert paths["/api/v1/containers"]["get"]["security"] == [{"bearer": []}, {"cookie": []}, {"apiKey": []}]
    assert paths["/api/v1/agents/{agentId}/push"]["post"]["security"] == [{"agentToken": []}]


async def test_the_description_of_a_route_has_its_parameters_body_and_answers(anonymous):
    document = await anonymous.json("/openapi.json")

    range_query = document["paths"]["/api/v1/metrics/range"]["get"]
    assert [parameter["name"] for parameter in range_query["parameters"]] == [
        "metric",
        "selector",
        "start",
        "end",
        "step",
    ]
    deletion = document["paths"]["/api/v1/agents/{agentId}"]["delete"]
    assert set(deletion["responses"]) == {"204", "default"}
    assert deletion["parameters"] == [
        {"name": "agentId", "in": "path", "required": True, "schema": {"type": "string"}}
    ]
    schema = document["paths"]["/api/v1/agents/register"]["post"]["requestBody"]["content"][
        "application/json"
    ]
    registration = document["components"]["schemas"][schema["schema"]["$ref"].rsplit("/", 1)[1]]
    assert set(registration["required"]) >= {"name", "type"}
