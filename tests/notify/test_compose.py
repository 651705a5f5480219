"""What a message lists, and how people read it."""

from __future__ import annotations

import math

import pytest

from monitor.notify.compose import lines, linked, merged, one_line, subject, text, trend, trial
from monitor.notify.models import Message, Notice
from tests.notify.receivers import AT, change


def message(*notices: Notice) -> Message:
    return Message("org_1", AT, notices)


def firing(number: int = 1, **fields) -> Notice:
    return Notice(change("org_1", f"alert_{number}", **fields))


def test_up_to_three_changes_of_a_series_are_listed_one_by_one():
    states = ["firing", "acknowledged", "resolved"]
    changes = [(b"series", change("org_1", "alert_1", state)) for state in states]

    assert [(notice.change.state, notice.changes) for notice in merged(changes)] == [(s, 1) for s in states]


def test_more_changes_of_a_series_are_told_as_the_newest_with_their_number():
    flapping = [
        (b"a", change("org_1", f"alert_{number}", state))
        for number in range(2)
        for state in ("firing", "resolved")
    ]
    changes = [flapping[0], (b"b", change("org_1", "steady")), *flapping[1:]]

    told = [(notice.change.alert_id, notice.change.state, notice.changes) for notice in merged(changes)]

    assert told == [("steady", "firing", 1), ("alert_1", "resolved", 4)]


def test_a_link_leads_to_the_alert_if_the_service_knows_its_address():
    assert linked(firing(), "https://m.example.com/x/").link == "https://m.example.com/x/alerts/alert_1"
    assert linked(firing(), None).link is None


def test_the_subject_says_how_many_are_in_which_state():
    one = message(firing())
    several = message(firing(1), firing(2), Notice(change("org_1", "alert_3", "resolved")))

    assert subject(one) == "[firing] CPU high: name-of-alert_1"
    assert subject(several) == "[2 firing, 1 resolved] CPU high: name-of-alert_1 and 2 more"


def test_a_subject_is_one_line_whatever_a_rule_is_called():
    named = message(firing(rule_name="a\r\nBcc: everybody@example.com\n" + "x" * 500), firing(2))

    line = subject(named)

    assert line.startswith("[2 firing] a Bcc: everybody@example.com xxx")
    assert line.endswith(" and 1 more")
    assert len(line) == 200


def test_an_alert_is_told_with_rule_resource_value_threshold_trend_and_link():
    notice = linked(
        Notice(change("org_1", "alert_1"), changes=7, values=((0.0, 10.0), (30.0, 55.0), (60.0, 97.5))),
        "https://m.example.com",
    )

    assert text(message(notice)).splitlines() == [
        "firing (critical): CPU high",
        "container name-of-alert_1 (id-of-alert_1)",
        "value 97.5, threshold > 80, at 2030-01-31T12:00:00Z",
        "what is wrong with alert_1",
        "changed 7 times; this is the newest",
        "last 15 minutes: ▁▅█ min 10, max 97.5, last 97.5",
        "https://m.example.com/alerts/alert_1",
    ]


def test_a_text_lists_twenty_alerts_and_counts_the_rest():
    told = text(message(*(firing(number) for number in range(230))))

    assert told.count("firing (critical)") == 20
    assert told.endswith("\n\nand 210 more\n")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([], ""),
        ([math.nan], ""),
        ([5.0, 5.0], "▁▁ min 5, max 5, last 5"),
        ([0.0, math.inf, 7.0], "▁█ min 0, max 7, last 7"),
        ([-1e308, 1e308], "▁█ min -1e+308, max 1e+308, last 1e+308"),
        ([0.000001234], "▁ min 1.234e-06, max 1.234e-06, last 1.234e-06"),
    ],
)
def test_a_trend_shows_what_is_finite(values, shown):
    assert trend([(float(number), value) for number, value in enumerate(values)]) == shown


@pytest.mark.parametrize(
    ("value", "line"), [("a\tb\u0000c\u202ed", "a b c d"), (" x ", "x"), ("", ""), ("Ä – 漢", "Ä – 漢")]
)
def test_control_characters_become_spaces(value, line):
    assert one_line(value) == line


def test_a_trial_says_that_it_is_one():
    assert subject(trial("org_1", AT)) == "[test] [firing] Test of a notification channel: test"
    assert "Nothing is wrong" in text(trial("org_1", AT))


def test_a_value_that_is_none_is_told_as_it_is():
    assert lines(firing(value=math.nan))[2].startswith("value nan, threshold > 80")
