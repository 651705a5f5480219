import pytest

from monitor.errors import StorageUnavailable
from monitor.tsdb.instance import dedup_enabled, retention_seconds, started

DAY = 86_400
PAGE = """\
flag{{name="dedup.minScrapeInterval", value="{dedup}", is_set="true"}} 1
flag{{name="retentionPeriod", value="{retention}", is_set="true"}} 1
vm_app_start_timestamp 1893456000
"""


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("400d", 400 * DAY),
        ("1", 31 * DAY),
        ("13", 13 * 31 * DAY),
        ("2w", 14 * DAY),
        ("1y", 365 * DAY),
        ("36h", 1.5 * DAY),
        ("1.5M", 46.5 * DAY),
    ],
)
def test_the_retention_is_read_with_its_unit(value, seconds):
    assert retention_seconds(PAGE.format(dedup="0s", retention=value)) == seconds


@pytest.mark.parametrize("value", ["", "d", "10q", "secret"])
def test_a_retention_in_an_unknown_form_is_no_retention(value):
    with pytest.raises(StorageUnavailable):
        retention_seconds(PAGE.format(dedup="0s", retention=value))


@pytest.mark.parametrize(
    ("value", "enabled"), [("1ms", True), ("15s", True), ("0s", False), ("0", False), ("", False)]
)
def test_dedup_is_on_above_zero(value, enabled):
    assert dedup_enabled(PAGE.format(dedup=value, retention="1")) is enabled


def test_another_page_is_no_page_of_victoriametrics():
    assert started(PAGE.format(dedup="", retention="")) == "1893456000"
    assert dedup_enabled("") is False
    with pytest.raises(StorageUnavailable):
        started("up 1\n")
