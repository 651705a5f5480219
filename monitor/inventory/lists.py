"""The lists: the union of all agents' latest snapshots, in the order of names.

Each agent's elements are kept as encoded JSON, under the version of the snapshot
they were made from.  A request reads the versions, decodes what is new and joins;
what it answers is exactly what is stored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import zstandard
from aiohttp import web
from msgspec import Struct

from monitor.db.postgres import connection
from monitor.inventory import store
from monitor.inventory.models import Summary, container_of, node_of, pod_of, summary_of
from monitor.inventory.store import Kind
from monitor.wire import push

CACHE_BYTES = 256 * 2**20  # of encoded elements a process, oldest lists go first

_DECODERS: dict[Kind, msgspec.json.Decoder[list[Any]]] = {
    "containers": msgspec.json.Decoder(list[push.Container]),
    "pods": msgspec.json.Decoder(list[push.Pod]),
    "nodes": msgspec.json.Decoder(list[push.Node]),
}
_SHOWN: dict[Kind, Callable[[Any, str], Any]] = {
    "containers": container_of,
    "pods": pod_of,
    "nodes": node_of,
}
_encoder = msgspec.json.Encoder()


class Piece(Struct, frozen=True):
    """One agent's elements: sort keys, unique in the organization, and encoded JSON."""

    version: int
    keys: list[str]
    elements: list[bytes]


class Listing:
    """One organization's list of one kind."""

    def __init__(self) -> None:
        self.pieces: dict[str, Piece] = {}
        self.body = b"[]"
        self._order: dict[str, int] | None = None  # key -> place; None: to be sorted again
        self._elements: list[bytes] = []

    def apply(self, changed: dict[str, Piece], gone: set[str]) -> None:
        """Take the new pieces over and make the body anew."""
        if not changed and not gone:
            return
        for agent_id in gone:
            del self.pieces[agent_id]
        same = not gone
        for agent_id, piece in changed.items():
            before = self.pieces.get(agent_id)
            same = same and before is not None and before.keys == piece.keys
            self.pieces[agent_id] = piece
        if same and self._order is not None:
            for piece in changed.values():
                for key, element in zip(piece.keys, piece.elements, strict=True):
                    self._elements[self._order[key]] = element
        else:
            pairs = [
                pair
                for piece in self.pieces.values()
                for pair in zip(piece.keys, piece.elements, strict=True)
            ]
            pairs.sort()
            self._order = {key: place for place, (key, _) in enumerate(pairs)}
            self._elements = [element for _, element in pairs]
        self.body = b"[" + b",".join(self._elements) + b"]"


class Inventory:
    """The lists of one process."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._listings: OrderedDict[tuple[str, Kind], Listing] = OrderedDict()
        self._decompressor = zstandard.ZstdDecompressor()

    async def body(self, org_id: str, kind: Kind) -> bytes:
        """Return the JSON array of all the organization's elements of *kind*.

        Raises:
            StorageUnavailable: Postgres is away.
        """
        listing = self._listings.setdefault((org_id, kind), Listing())
        self._listings.move_to_end((org_id, kind))
        async with connection(self._app) as conn:
            versions = await store.versions(conn, org_id)
            new = [
                agent_id
                for agent_id, version in versions.items()
                if (piece := listing.pieces.get(agent_id)) is None or piece.version < version
            ]
            blobs = await store.snapshots(conn, org_id, kind, new) if new else {}
        # No await from here on: two requests at once leave a list that is whole.
        changed = {
            agent_id: self._piece(agent_id, kind, version, blob)
            for agent_id, (version, blob) in blobs.items()
            if (piece := listing.pieces.get(agent_id)) is None or piece.version < version
        }
        listing.apply(changed, listing.pieces.keys() - versions.keys())
        self._shrink()
        return listing.body

    def _piece(self, agent_id: str, kind: Kind, version: int, blob: bytes | None) -> Piece:
        shown = _SHOWN[kind]
        items = self._decode(kind, blob)
        # JSON holds no raw newline: one call encodes them all.
        elements = _encoder.encode_lines([shown(item, agent_id) for item in items]).split(b"\n")
        pairs = sorted(zip([_key(item, agent_id) for item in items], elements, strict=False))
        return Piece(version, [key for key, _ in pairs], [element for _, element in pairs])

    def _decode(self, kind: Kind, blob: bytes | None) -> list[Any]:
        return [] if blob is None else _DECODERS[kind].decode(self._decompressor.decompress(blob))

    def _shrink(self) -> None:
        size = sum(len(listing.body) for listing in self._listings.values())
        while size > CACHE_BYTES and len(self._listings) > 1:
            size -= len(self._listings.popitem(last=False)[1].body)

    async def summary(self, org_id: str) -> Summary:
        """Return the counts over the organization's pods and nodes.

        Raises:
            StorageUnavailable: Postgres is away.
        """
        async with connection(self._app) as conn:
            agent_ids = list(await store.versions(conn, org_id))
            pods = await store.snapshots(conn, org_id, "pods", agent_ids)
            nodes = await store.snapshots(conn, org_id, "nodes", agent_ids)
        return summary_of(
            [pod for _, blob in pods.values() for pod in self._decode("pods", blob)],
            [node for _, blob in nodes.values() for node in self._decode("nodes", blob)],
        )


def _key(item: Any, agent_id: str) -> str:
    """Return what orders elements: name, then what tells equal names apart."""
    middle = item.id if isinstance(item, push.Container) else getattr(item, "namespace", "")
    return f"{item.name}\0{middle}\0{agent_id}"


INVENTORY: web.AppKey[Inventory] = web.AppKey("INVENTORY", Inventory)


async def inventory_context(app: web.Application) -> AsyncIterator[None]:
    """Make the inventory when the pool is there."""
    app[INVENTORY] = Inventory(app)
    yield
