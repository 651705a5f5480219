"""The dashboard that ships: every query of it passes the guard and names metrics that exist."""

import json
import re
from pathlib import Path

import pytest
import yaml

from monitor.tsdb.catalogue import BY_NAME, LABELS
from monitor.tsdb.selector import parse

GRAFANA = Path(__file__).parents[2] / "deploy" / "grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards" / "infrastructure.json").read_text())
PANELS = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
VARIABLES = DASHBOARD["templating"]["list"]


def as_grafana_asks(expression):
    """Put a chosen value for each variable, as Grafana does before it asks."""
    return re.sub(r"\$\w+", "(a|b)", expression)


@pytest.mark.parametrize(("title", "expression"), PANELS)
def test_every_panel_asks_with_one_selector_on_a_metric_of_the_catalogue(title, expression):
    selector = parse(as_grafana_asks(expression))

    metric = BY_NAME[selector.name]
    assert {matcher.label for matcher in selector.matchers} <= {
        "__name__",
        *LABELS[metric.resource],
        *metric.labels,
    }


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable["name"])
def test_every_variable_lists_a_label_of_a_metric_of_the_catalogue(variable):
    match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])

    metric = BY_NAME[parse(as_grafana_asks(match[1])).name]
    assert match[2] in LABELS[metric.resource]


def test_panels_ask_the_data_source_that_is_provisioned():
    (source,) = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "monitor.yaml").read_text())[
        "datasources"
    ]

    used = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} | {
        v["datasource"]["uid"] for v in VARIABLES
    }
    assert used == {source["uid"]}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


async def test_every_panel_is_answered(api):
    for _, expression in PANELS:
        form = {
            "query": as_grafana_asks(expression),
            "start": "1893456000",
            "end": "1893459600",
            "step": "15",
        }
        async with api.post("/prometheus/api/v1/query_range", data=form) as response:
            assert response.status == 200, await response.text()
