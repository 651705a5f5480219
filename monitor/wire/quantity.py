"""Kubernetes quantities: ``7900m``, ``16384Ki``, ``1e3``.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

_QUANTITY = re.compile(
    r"(?P<digits>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,3})|(?P<suffix>[numkMGTPE]|[KMGTPE]i))?"
)
_LONGEST = 64  # characters; the real ones have fewer than 20
_LARGEST = Decimal(10) ** 30  # far above any machine, far below the end of a float
_FACTORS: dict[str | None, Decimal] = {
    None: Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


@lru_cache(maxsize=4096)  # nodes repeat the same few texts in every push
def parse_quantity(text: str) -> int | float:
    """Return a quantity in its base unit (cores, bytes, pieces); whole ones as int.

    Raises:
        ValueError: *text* is no quantity, or above 1e30.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError("expected a Kubernetes quantity such as 8, 7900m or 16384Ki")
    value = Decimal(match["digits"]) * _FACTORS[match["suffix"]]
    value = value.scaleb(int(match["exponent"] or 0))
    if abs(value) > _LARGEST:
        raise ValueError("the quantity is out of range")
    return int(value) if value == value.to_integral_value() else float(value)
