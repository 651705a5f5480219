"""Fixtures: an API server of the tests', and the agent's connection to it."""

import pytest
from yarl import URL

from monitor.collector import backoff
from monitor.collector.kubernetes import reflector
from monitor.collector.kubernetes.access import Access, Material
from monitor.collector.kubernetes.source import Cluster
from tests.collector.conftest import service
from tests.collector.fakes import served
from tests.collector.kubernetes.fake_api import TOKEN, FakeApi

__all__ = ["service"]


def access_to(url, token=TOKEN):
    async def load():
        return Material(token=token)

    return Access(URL(url), load)


@pytest.fixture
async def kube(monkeypatch):
    monkeypatch.setattr(backoff, "BACKOFF_LIMIT_SECONDS", 0.05)
    monkeypatch.setattr(reflector, "PAUSE_SECONDS", 0.0)
    fake = FakeApi()
    async with served(fake.app()) as url:
        fake.url = url
        yield fake


@pytest.fixture
async def cluster(kube):
    async with Cluster(access_to(kube.url), "test") as opened:
        yield opened
