import pytest

from monitor.wire.quantity import parse_quantity

QUANTITIES = [
    ("8", 8), ("7900m", 7.9), ("250n", 2.5e-7), ("1500u", 0.0015), ("1k", 1000), ("1M", 10**6), ("2G", 2 * 10**9),
    ("1T", 10**12), ("1P", 10**15), ("1E", 10**18), ("64Mi", 64 * 2**20), ("16384Ki", 2**24), ("1Gi", 2**30),
    ("1Ti", 2**40), ("1Pi", 2**50), ("1Ei", 2**60), ("1.5Gi", 1610612736), ("1e3", 1000), ("1E3", 1000),
    ("12e-1", 1.2), ("+5", 5), ("-5", -5), (".5", 0.5), ("5.", 5), ("0", 0), ("1000m", 1), ("1e30", 10**30),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), QUANTITIES)
def test_a_quantity_is_read_in_its_base_unit(text, value):
    parsed = parse_quantity(text)

    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    "text",
    ["", "x", "1K", "1ki", "1 Gi", "1Gi ", "Gi", "1e", "1e1.5", "1e1Gi", "NaN", "Infinity", "1_0", "1e31"],
)
def test_what_is_no_quantity_is_a_value_error(text):
    with pytest.raises(ValueError, match="quantity"):
        parse_quantity(text)
