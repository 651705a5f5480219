"""A configuration file of the test's own."""

import re

import pytest

from monitor.config import ConfigError, load

SECRET = "0123456789abcdef0123456789abcdef"
REQUIRED = {
    "postgres": "postgres: {dsn: 'postgresql://app:hunter2@db/monitor'}",
    "victoriametrics": "victoriametrics: {url: 'http://vm:8428'}",
    "auth": f"auth: {{jwt_secrets: [{SECRET}]}}",
}


@pytest.fixture
def written(tmp_path):
    """Write a file from a text, completed with the required sections that the text lacks."""

    def write(text="", name="monitor.yaml"):
        absent = [section for key, section in REQUIRED.items() if not re.search(f"^{key}:", text, re.M)]
        path = tmp_path / name
        path.write_text("\n".join([text, *absent]) + "\n")
        return path

    return write


@pytest.fixture
def refused(written):
    """Load a text that is wrong and return its problems without the path."""

    def problems(text, env=None):
        path = written(text)
        with pytest.raises(ConfigError) as error:
            load(path, env or {})
        lines = str(error.value).splitlines()
        assert all(line.startswith(f"{path}:") for line in lines)
        return [line.removeprefix(f"{path}:") for line in lines]

    return problems
