"""Which addresses are the public internet's."""

from __future__ import annotations

import pytest

from monitor.notify.addresses import is_odd_literal, is_private_literal, is_public

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.215.14",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "2a00:1450::1",
]
SPECIAL = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.170",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",  # IPv4-compatible
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",  # NAT64
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",  # Teredo
    "2001:db8::1",
    "2002:7f00:1::1",  # 6to4
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",  # a cloud's metadata
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_internet_is_public(address: str):
    assert is_public(address)
    assert not is_private_literal(address)


@pytest.mark.parametrize("address", SPECIAL)
def test_every_other_address_is_not(address: str):
    assert not is_public(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "169.254.169.254"])
def test_a_host_that_is_plainly_private_is_known_before_it_is_resolved(host: str):
    assert is_private_literal(host)
    assert not is_odd_literal(host)


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "10.1", "0177.0.0.1", "0", "1.2.3.4.5", "127.1."])
def test_a_host_that_is_half_a_number_is_odd(host: str):
    assert is_odd_literal(host)


@pytest.mark.parametrize(
    "host", ["localhost", "example.com", "127.0.0.1.nip.io", "1.example", "8.8.8.8", "2a00::1"]
)
def test_names_and_public_addresses_are_neither(host: str):
    assert not is_private_literal(host)
    assert not is_odd_literal(host)
