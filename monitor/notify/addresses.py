"""Which network addresses are the public internet's.  Pure.

What is not, whatever the reason, is where the service's own neighbours may be: a
channel's target is refused there unless the configuration says otherwise.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_address

# IANA's special-purpose registries, and what carries another address inside its own.
SPECIAL_IPV4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# All that was ever given out.  Outside are loopback, IPv4-mapped, NAT64, unique local,
# link-local, site-local and multicast addresses.
PUBLIC_IPV6 = IPv6Network("2000::/3")
SPECIAL_IPV6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # Teredo among others
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)

# What resolvers may read as an address (https://url.spec.whatwg.org/#ends-in-a-number-checker).
ENDS_IN_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)\.?$")


def is_public(address: str) -> bool:
    """Tell whether *address*, as a resolver gives it, is on the public internet.

    Raises:
        ValueError: It is no address.
    """
    ip = ip_address(address.partition("%")[0])
    if ip.version == 4:
        return not any(ip in network for network in SPECIAL_IPV4)
    return ip in PUBLIC_IPV6 and not any(ip in network for network in SPECIAL_IPV6)


def is_private_literal(host: str) -> bool:
    """Tell whether the *host* of a URL, without brackets, is written as an address that is not public."""
    try:
        return not is_public(host)
    except ValueError:
        return False  # a name: known when it is resolved


def is_odd_literal(host: str) -> bool:
    """Tell whether *host* ends in a number and is no plain address: ``127.1``, ``0x7f.1``, ``2130706433``."""
    if not ENDS_IN_NUMBER.search(host):
        return False
    try:
        ip_address(host)
    except ValueError:
        return True
    return False
