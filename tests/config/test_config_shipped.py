"""The configuration file that is shipped."""

import re
from pathlib import Path

import msgspec
import pytest

from monitor.config import (
    Config,
    ConfigError,
    Postgres,
    Server,
    load,
)

SHIPPED = Path(__file__).parents[2] / "config" / "monitor.yaml"
SECRET = "0123456789abcdef0123456789abcdef"
SHIPPED_ENV = {"MONITOR_POSTGRES_DSN": "postgresql://app:hunter2@db/monitor", "MONITOR_JWT_SECRET": SECRET}


def test_the_shipped_file_needs_two_variables_and_nothing_else():
    config = load(SHIPPED, SHIPPED_ENV)

    assert config.server == Server()
    assert config.postgres == Postgres("postgresql://app:hunter2@db/monitor")
    with pytest.raises(ConfigError) as error:
        load(SHIPPED, {})
    assert [problem.message for problem in error.value.problems] == [
        "environment variable MONITOR_POSTGRES_DSN is not set",
        "environment variable MONITOR_JWT_SECRET is not set",
    ]


def test_the_commented_out_keys_of_the_shipped_file_show_the_defaults(tmp_path):
    shipped = SHIPPED.read_text()
    with_defaults = re.sub(r"^( +)# ( *(?!\w+_urls?: *\S)[a-z_]+:.*)$", r"\1\2", shipped, flags=re.M)
    path = tmp_path / "monitor.yaml"
    path.write_text(with_defaults.replace("internal_listen: \n", ""))

    assert load(path, SHIPPED_ENV) == load(SHIPPED, SHIPPED_ENV)
    assert (
        len(re.findall(r"^ +[a-z_]+:", with_defaults, re.M))
        > len(re.findall(r"^ +[a-z_]+:", shipped, re.M)) + 12
    )


def test_the_shipped_file_explains_every_key():
    text = SHIPPED.read_text()

    for section in msgspec.structs.fields(Config):
        block = re.search(rf"^{section.encode_name}:\n(.*?)(?=^\w|\Z)", text, re.M | re.S)
        assert block, section.encode_name
        for item in msgspec.structs.fields(section.type):
            assert re.search(rf"^ +(# )?{item.encode_name}:", block[1], re.M), item.encode_name
