"""Containers, pods, nodes and the summary: bare arrays, unfiltered, ordered by name."""

from __future__ import annotations

from aiohttp import web

from monitor.auth.models import TENANT
from monitor.inventory.lists import INVENTORY
from monitor.inventory.models import Container, Node, Pod, Summary
from monitor.inventory.store import Kind
from monitor.web.codec import reply
from monitor.web.openapi import describes

routes = web.RouteTableDef()


@routes.get("/api/v1/containers")
@describes(reply=list[Container])
async def list_containers(request: web.Request) -> web.Response:
    """List the containers of all agents with their latest metrics."""
    return await _list(request, "containers")


@routes.get("/api/v1/pods")
@describes(reply=list[Pod])
async def list_pods(request: web.Request) -> web.Response:
    """List the pods of all agents."""
    return await _list(request, "pods")


@routes.get("/api/v1/nodes")
@describes(reply=list[Node])
async def list_nodes(request: web.Request) -> web.Response:
    """List the nodes of all agents."""
    return await _list(request, "nodes")


async def _list(request: web.Request, kind: Kind) -> web.Response:
    body = await request.app[INVENTORY].body(request[TENANT].org_id, kind)
    return web.Response(body=body, content_type="application/json")


@routes.get("/api/v1/cluster/summary")
@describes(reply=Summary)
async def cluster_summary(request: web.Request) -> web.Response:
    """Count nodes and pods of all clusters."""
    return reply(await request.app[INVENTORY].summary(request[TENANT].org_id))
