"""The decoder of remote write's message: what was encoded comes out, garbage is refused."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import BadRequest, PayloadTooLarge
from monitor.prometheus.protobuf import MOST_FIELDS, MOST_READ_LABELS, series_of
from monitor.prometheus.write import unsnappy
from tests.prometheus.write_request import block, label, sample, series, varint, write_request

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SERIES = st.tuples(
    st.lists(st.tuples(TEXTS, TEXTS), max_size=5),
    st.lists(st.tuples(st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1)), max_size=5),
)
# Fields that newer or other senders add: exemplars, histograms, and numbers nobody has given out.
UNKNOWN = st.one_of(
    st.builds(block, st.integers(3, 2**29 - 1), st.binary(max_size=20)),
    st.builds(lambda number, value: varint(number * 8) + varint(value), st.integers(3, 900), st.integers(0)),
    st.builds(lambda number, raw: varint(number * 8 + 1) + raw, st.integers(3, 900), st.just(b"\xff" * 8)),
    st.builds(lambda number, raw: varint(number * 8 + 5) + raw, st.integers(3, 900), st.just(b"\xff" * 4)),
)
ONE = series({"__name__": "up"}, (1.5, 1000))


def read(message):
    return [(one.labels, one.samples(0, MOST_FIELDS)) for one in series_of(message)]


@given(st.lists(SERIES, max_size=5))
@settings(deadline=None)
def test_what_was_encoded_comes_out(expected):
    message = write_request(*[series(labels, *samples) for labels, samples in expected])

    assert read(message) == expected


@given(SERIES, UNKNOWN, UNKNOWN, st.booleans())
@settings(deadline=None)
def test_unknown_fields_change_nothing(expected, outer, inner, first):
    labels, samples = expected
    encoded = inner + series(labels, *samples) if first else series(labels, *samples) + inner

    assert read(outer + write_request(encoded) + outer) == [(labels, samples)]


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=500)
def test_garbage_is_series_or_a_bad_request(garbage):
    with suppress(BadRequest):
        read(garbage)


@given(st.integers(0), st.integers(0, 255), st.integers(0))
@settings(deadline=None, max_examples=300)
def test_a_damaged_message_is_series_or_a_bad_request(place, byte, cut):
    message = bytearray(write_request(ONE, series({"__name__": "b", "c": "d"}, (2, 3), (4, 5))))
    message[place % len(message)] = byte
    with suppress(BadRequest):
        read(bytes(message[: cut % len(message) + 1]))


@given(
    st.one_of(
        st.binary(max_size=200),
        st.builds(lambda size, rest: varint(size) + rest, st.integers(0, 2**33), st.binary(max_size=200)),
    )
)
@settings(deadline=None, max_examples=500)
def test_damaged_snappy_is_bytes_or_refused(garbage):
    with suppress(BadRequest, PayloadTooLarge):
        assert isinstance(unsnappy(garbage), bytes)


def test_fields_may_come_in_any_order_and_the_last_of_a_value_counts():
    pair = block(2, b"v") + block(1, b"name")
    twice = b"\x10" + varint(1) + sample(2.5, -7)

    assert read(write_request(block(2, twice) + block(1, pair))) == [([("name", "v")], [(2.5, -7)])]


def test_what_is_left_out_is_empty_or_zero():
    assert read(write_request(block(1, b"") + block(2, b""))) == [([("", "")], [(0.0, 0)])]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (write_request(ONE)[:-1], "body: not valid protobuf: the message ends early"),
        (b"\x0a", "body: not valid protobuf: the message ends early"),
        (b"\x80" * 3, "body: not valid protobuf: the message ends early"),
        (b"\xff" * 11, "body: not valid protobuf: an integer is too long"),
        (b"\x08\x01", "body: not valid protobuf: field 1 has the wrong type"),
        (b"\x02\x00", "body: not valid protobuf: field 0 has the wrong type"),
        (b"\x1b\x1c", "body: not valid protobuf: unknown wire type 3"),
        (write_request(ONE, b"\x0a\x05ab"), "timeseries[1]: not valid protobuf: the message ends early"),
        (write_request(block(1, b"\x08\x01")), "timeseries[0]: not valid protobuf: field 1 has the wrong type"),
        (write_request(block(1, block(1, b"\xff"))), "timeseries[0]: not valid protobuf: a label is not valid UTF-8"),
        (write_request(block(2, b"\x09abc")), "timeseries[0].samples: not valid protobuf: the message ends early"),
        (write_request(block(2, block(1, b"8bytes.."))),
         "timeseries[0].samples: not valid protobuf: field 1 has the wrong type"),
        (write_request(block(1, label("a", "b")) * (MOST_READ_LABELS + 1)),
         "timeseries[0]: not valid protobuf: more than 100 labels"),
        (b"\x18\x00" * (MOST_FIELDS + 1), "body: not valid protobuf: more than 100000 fields in one message"),
    ],
)  # fmt: skip
def test_no_message_is_refused_with_what_is_wrong(message, text):
    with pytest.raises(BadRequest) as caught:
        read(message)

    assert caught.value.text == text


def test_a_negative_time_and_every_double_come_out_exactly():
    values = [-0.0, 5e-324, 1.7976931348623157e308, float("inf"), 0.1]
    message = write_request(series({}, *[(value, -1) for value in values]))

    [(_, samples)] = read(message)

    assert [struct.pack("<d", value) for value, _ in samples] == [
        struct.pack("<d", value) for value in values
    ]
    assert {ms for _, ms in samples} == {-1}
