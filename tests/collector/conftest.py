"""Fixtures of the agent's tests."""

import pytest

from tests.collector.fakes import FakeEngine, FakeService, served
from tests.docker_engine import docker_engine

__all__ = ["docker_engine"]


@pytest.fixture
async def service():
    fake = FakeService()
    async with served(fake.app()) as url:
        fake.url = url
        yield fake


@pytest.fixture
async def engine():
    fake = FakeEngine()
    async with served(fake.app()) as url:
        fake.host = url
        yield fake
