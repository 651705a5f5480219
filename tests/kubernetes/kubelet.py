"""A stand-in for what a cluster of the tests lacks: the kubelets' logs, and a metrics provider."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.collector.fakes import served
from tests.collector.kubernetes.certificates import Certificates

GROUP_VERSION = "metrics.k8s.io/v1beta1"
RESOURCES = (("nodes", "NodeMetrics", False), ("pods", "PodMetrics", True))


class Kubelet:
    """Answers the API server.

    Attributes:
        port: Where it listens.
        logs: Lines with their times, by namespace, pod, container and whether of the run before.
        queries: What it was asked, by the same.
        pods, nodes: The items of the metrics API.
    """

    def __init__(self) -> None:
        self.port = 0
        self.logs: dict[tuple[str, str, str, bool], list[tuple[str, str]]] = {}
        self.queries: list[tuple[str, dict[str, str]]] = []
        self.pods: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []

    def app(self) -> web.Application:
        """Return what serves both."""
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self.container_log)
        app.router.add_get(f"/apis/{GROUP_VERSION}", self.resources)
        app.router.add_get(f"/apis/{GROUP_VERSION}/{{resource}}", self.metrics)
        return app

    async def container_log(self, request: web.Request) -> web.StreamResponse:
        """Answer as a kubelet: timestamps, from a second on, of the run before, following."""
        info, query = request.match_info, request.query
        self.queries.append((info["container"], dict(query)))
        previous = query.get("previous") == "true"
        key = (info["namespace"], info["pod"], info["container"], previous)
        lines = self.logs.get(key)
        if lines is None:
            return web.Response(status=400, text=f'container "{info["container"]}" not found')
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        sent = max(0, len(lines) - int(query["tailLines"])) if "tailLines" in query else 0
        while True:
            for time, text in lines[sent:]:
                if time >= query.get("sinceTime", "").removesuffix("Z"):
                    await response.write(f"{time} {text}\n".encode())
                sent += 1
            if query.get("follow") != "true" or self.logs.get(key) is not lines:
                return response
            await asyncio.sleep(0.05)

    async def resources(self, request: web.Request) -> web.Response:
        """Say what the metrics API has."""
        resources = [
            {
                "name": name,
                "singularName": "",
                "namespaced": namespaced,
                "kind": kind,
                "verbs": ["get", "list"],
            }
            for name, kind, namespaced in RESOURCES
        ]
        return web.json_response(
            {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": GROUP_VERSION,
                "resources": resources,
            }
        )

    async def metrics(self, request: web.Request) -> web.Response:
        """List usage."""
        items = {"pods": self.pods, "nodes": self.nodes}[request.match_info["resource"]]
        return web.json_response({"apiVersion": GROUP_VERSION, "metadata": {}, "items": items})


@asynccontextmanager
async def kubelet_at_work(certificates: Certificates) -> AsyncIterator[Kubelet]:
    """Serve a stand-in over TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server, certificates.server_key)
    kubelet = Kubelet()
    async with served(kubelet.app(), tls=context) as url:
        kubelet.port = int(url.rpartition(":")[2])
        yield kubelet
