"""Encode messages of remote write 1.0, as the protobuf documents describe them."""

import struct

import cramjam

HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
STALE = struct.unpack("<d", (0x7FF0000000000002).to_bytes(8, "little"))[0]


def varint(number):
    """Encode an integer of 64 bits, a negative one as its two's complement."""
    number %= 1 << 64
    groups = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def block(number, content):
    """Encode a field of bytes."""
    return varint(number * 8 + 2) + varint(len(content)) + content


def label(name, value):
    return block(1, name.encode()) + block(2, value.encode())


def sample(value, ms):
    return b"\x09" + struct.pack("<d", value) + b"\x10" + varint(ms)


def series(labels, *samples):
    """Encode a series: pairs of name and value (or a dict), then pairs of value and milliseconds."""
    pairs = labels.items() if isinstance(labels, dict) else labels
    blocks = [block(1, label(*pair)) for pair in pairs] + [block(2, sample(*pair)) for pair in samples]
    return b"".join(blocks)


def write_request(*encoded):
    return b"".join([block(1, each) for each in encoded])


def snappy(message):
    return bytes(cramjam.snappy.compress_raw(message))
