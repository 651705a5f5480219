"""``/api/v1/settings/channels``: who is told of alerts, and how it goes."""

from __future__ import annotations

from aiohttp import web

from monitor.auth.middleware import requires
from monitor.auth.models import TENANT
from monitor.config import CONFIG
from monitor.db.postgres import connection, found, transaction
from monitor.notify.channels import store
from monitor.notify.channels.models import Channel, ChannelChange, NewChannel, Tested
from monitor.settings import channels
from monitor.web.codec import no_content, read_body, reply
from monitor.web.openapi import describes

ID = "{id:[A-Za-z0-9_-]{1,64}}"  # anything else is nobody's id, and NUL no text for Postgres

routes = web.RouteTableDef()


@routes.get("/api/v1/settings/channels")
@requires(role="admin")
@describes(reply=list[Channel])
async def list_channels(request: web.Request) -> web.Response:
    """List the channels with their deliveries, oldest first; secrets are empty."""
    async with connection(request.app) as conn:
        return reply(await channels.list_channels(conn, request[TENANT].org_id))


@routes.post("/api/v1/settings/channels")
@requires(role="admin")
@describes(body=NewChannel, reply=Channel, status=201)
async def create_channel(request: web.Request) -> web.Response:
    """Create a channel; 201 with the channel."""
    new = await read_body(request, NewChannel)
    notifications = request.app[CONFIG].config.notifications
    async with transaction(request.app) as conn:
        channel = await channels.create_channel(conn, request[TENANT].org_id, new, notifications)
    return reply(channel, status=201)


@routes.put(f"/api/v1/settings/channels/{ID}")
@requires(role="admin")
@describes(body=ChannelChange, reply=Channel)
async def change_channel(request: web.Request) -> web.Response:
    """Change what is given of a channel; 200 with the channel."""
    change = await read_body(request, ChannelChange)
    org_id, channel_id = request[TENANT].org_id, request.match_info["id"]
    notifications = request.app[CONFIG].config.notifications
    async with transaction(request.app) as conn:
        channel = await channels.change_channel(conn, org_id, channel_id, change, notifications)
    return reply(channel)


@routes.delete(f"/api/v1/settings/channels/{ID}")
@requires(role="admin")
@describes(status=204)
async def delete_channel(request: web.Request) -> web.Response:
    """Delete a channel with what is on its way to it; 204."""
    async with transaction(request.app) as conn:
        found(await store.delete_channel(conn, request[TENANT].org_id, request.match_info["id"]))
    return no_content()


@routes.post(f"/api/v1/settings/channels/{ID}/test")
@requires(role="admin")
@describes(reply=Tested)
async def test_channel(request: web.Request) -> web.Response:
    """Send a test message now; 200 with what became of it."""
    return reply(await channels.try_channel(request.app, request[TENANT].org_id, request.match_info["id"]))
