"""What a process knows of a request that is watched in it."""

from __future__ import annotations

import pytest

from monitor.logs.tail.lines.feeds import Feed
from monitor.logs.tail.models import EndReason, Request, Row


def request(next_seq: int, end_reason: EndReason | None = None) -> Request:
    return Request("tail_1", "org", "agent", next_seq, opened=True, end_reason=end_reason)


@pytest.mark.parametrize(
    ("last_seq", "more"),
    [(3, True), (8, True), (9, False)],
)
def test_a_feed_that_has_not_read_every_line_that_came_is_read_again_at_once(last_seq: int, more: bool):
    feed = Feed(request(0))

    assert feed.take(request(10), Row(0, last_seq, b"events")) is more
    assert feed.next_seq == last_seq + 1


@pytest.mark.parametrize("found", [None, request(10), request(10, "complete")])
def test_a_feed_without_new_lines_in_the_table_is_not_read_again_at_once(found: Request | None):
    assert not Feed(request(5)).take(found, None)


def test_a_feed_is_over_when_its_request_has_ended_and_every_line_was_read():
    feed = Feed(request(0))

    feed.take(request(10, "complete"), Row(0, 4, b"events"))
    assert not feed.is_over
    feed.take(request(10, "complete"), Row(5, 9, b"events"))
    assert feed.is_over


def test_a_feed_whose_last_lines_are_forgotten_is_over():
    feed = Feed(request(0))

    feed.take(request(10, "complete"), None)

    assert feed.is_over
    assert feed.next_seq == 10
