"""Constant arithmetic, ``1+1``, which Grafana asks to see whether a data source lives.  Pure.

Plain decimal numbers, ``+ - * /`` and parentheses, in IEEE floats as Prometheus
computes them.  Without recursion: nesting costs a list entry.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

MAX_CHARACTERS: Final = 64

# A whole number with leading zeros is octal to Prometheus: no plain decimal number.
_TOKEN = re.compile(r"[ \t\r\n]*((?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?![0-9.])|[0-9]*\.[0-9]+(?![0-9.])|[-+*/()])")
_NEGATED: Final = "negated"
_BINDING: Final = {"(": 0, "+": 1, "-": 1, "*": 2, "/": 2, _NEGATED: 3}


def evaluate(text: str) -> float | None:
    """Return the value of *text*, None if it is no such arithmetic."""
    tokens = _tokens(text) if len(text) <= MAX_CHARACTERS else []
    values: list[float] = []
    operators: list[str] = []
    operand_next = True
    for word in tokens:
        operand = word == "(" or (word not in _BINDING and word != ")")
        if (not operand_next and operand) or (operand_next and word in {"*", "/", ")"}):
            return None
        if word == "(":
            operators.append(word)
        elif operand:
            values.append(float(word))
            operand_next = False
        elif operand_next:
            operators += [_NEGATED] if word == "-" else []
        elif word == ")":
            _apply(values, operators, 1)
            if not operators:
                return None
            operators.pop()
        else:
            _apply(values, operators, _BINDING[word])
            operators.append(word)
            operand_next = True
    if operand_next or "(" in operators:
        return None
    _apply(values, operators, 1)
    return values[0]


def printed(value: float) -> str:
    """Return a scalar as Prometheus writes it: no exponent, as few digits as tell it apart."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = format(Decimal(repr(value)), "f")
    return text.removesuffix(".0")


def _tokens(text: str) -> list[str]:
    """Return the numbers and symbols of *text*, none if it holds anything else."""
    tokens = []
    at, end = 0, len(text.rstrip(" \t\r\n"))
    while at < end:
        word = _TOKEN.match(text, at, end)
        if word is None:
            return []
        tokens.append(word[1])
        at = word.end()
    return tokens


def _apply(values: list[float], operators: list[str], binding: int) -> None:
    """Compute with the operators on top that bind at least that tightly."""
    while operators and _BINDING[operators[-1]] >= binding:
        operator = operators.pop()
        right = values.pop()
        if operator == _NEGATED:
            values.append(-right)
            continue
        left = values.pop()
        if operator == "+":
            values.append(left + right)
        elif operator == "-":
            values.append(left - right)
        elif operator == "*":
            values.append(left * right)
        else:
            values.append(_divided(left, right))


def _divided(left: float, right: float) -> float:
    if right:
        return left / right
    if math.isnan(left) or not left:
        return math.nan
    return math.copysign(math.inf, math.copysign(1.0, left) * math.copysign(1.0, right))
