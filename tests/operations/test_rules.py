"""The rules for a Prometheus that watches the service itself: deploy/prometheus."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

import monitor.app  # noqa: F401 - registers the metrics

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "monitor.rules.yaml"
OPERATIONS = RULES.parents[2] / "docs" / "operations.md"
ALERT = re.compile(r"- alert: (\w+)")


def test_every_metric_of_the_rules_is_one_of_the_service():
    known = {
        sample
        for family in REGISTRY.collect()
        for sample in (family.name, f"{family.name}_total", f"{family.name}_bucket")
    }

    named = set(re.findall(r"\bmonitor_[a-z_]+", RULES.read_text()))

    assert len(named) > 10
    assert named - known == set()


def test_the_operators_page_says_what_to_do_about_every_alert():
    alerts = ALERT.findall(RULES.read_text())

    assert len(alerts) > 10
    assert [alert for alert in alerts if f"`{alert}`" not in OPERATIONS.read_text()] == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is missing")
def test_prometheus_takes_the_rules():
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
