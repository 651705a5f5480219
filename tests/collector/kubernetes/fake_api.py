"""A cluster's API server over real HTTP, as far as the agent asks it: lists, watches, metrics, logs, apply."""

import asyncio
import json
from collections import Counter

from aiohttp import web

TOKEN = "cluster-token"
PATHS = {
    "/api/v1/pods": "Pod",
    "/api/v1/nodes": "Node",
    "/apis/apps/v1/replicasets": "ReplicaSet",
}


def status(code, reason, message, causes=None):
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
        **({"details": {"causes": causes}} if causes else {}),
    }


class FakeApi:
    """Holds objects and the history that watches are served from.

    `forget()` compacts the history: watches from before are told 410.
    """

    def __init__(self):
        self.url = ""
        self.token = TOKEN
        self.version = 100
        self.oldest = 100  # the oldest version that a watch may start from
        self.objects = {path: {} for path in PATHS}
        self.history = {path: [] for path in PATHS}  # (version, type, object)
        self.news = asyncio.Condition()
        self.requests = Counter()  # by method and path; lists and watches apart
        self.queries = []  # (path, query)
        self.page_items = None  # instead of the limit that is asked for
        self.refuse = {}  # path -> Status, for every request
        self.expire_continues = 0  # so many pages after the first are answered 410
        self.cut_watches = 0  # so many watches are cut at their next event, in its midst
        self.end_watches = asyncio.Event()
        self.metrics_versions = ["v1beta1"]
        self.pod_metrics = []
        self.node_metrics = []
        self.logs = {}  # (namespace, pod, container, previous) -> [(time, text)]
        self.log_streams = 0  # open ones with follow
        self.most_log_streams = 0
        self.log_queries = []  # (namespace, pod, query)
        self.workloads = {}  # (namespace, plural, name) -> {"replicas", "owners": {manager: value}}
        self.applied = []  # (path, query, body)

    def app(self):
        app = web.Application(middlewares=[self.authenticate])
        for path in PATHS:
            app.router.add_get(path, self.list_or_watch)
        app.router.add_get("/apis/metrics.k8s.io", self.metrics_group)
        app.router.add_get("/apis/metrics.k8s.io/{version}/{resource}", self.metrics)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/log", self.log)
        app.router.add_get("/apis/apps/v1/namespaces/{namespace}/{plural}/{name}", self.workload)
        app.router.add_patch("/apis/apps/v1/namespaces/{namespace}/{plural}/{name}", self.apply)
        return app

    @web.middleware
    async def authenticate(self, request, handler):
        self.queries.append((request.path, dict(request.query)))
        watching = "watch " if "watch" in request.query else ""
        self.requests[f"{watching}{request.method} {request.path}"] += 1
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response(status(401, "Unauthorized", "Unauthorized"), status=401)
        if refusal := self.refuse.get(request.path):
            return web.json_response(refusal, status=refusal["code"])
        return await handler(request)

    async def put(self, path, item):
        """Create or change an object."""
        async with self.news:
            self._record(path, "MODIFIED" if self._key(item) in self.objects[path] else "ADDED", item)
            self.news.notify_all()

    async def delete(self, path, item):
        async with self.news:
            self._record(path, "DELETED", item)
            self.news.notify_all()

    def add(self, path, *items):
        """Have objects from the start."""
        for item in items:
            self._record(path, "ADDED", item)

    async def forget(self):
        """Compact: whoever watches from before must list again."""
        async with self.news:
            self.version += 1
            self.oldest = self.version
            self.history = {path: [] for path in PATHS}
            self.news.notify_all()

    def _key(self, item):
        return item["metadata"].get("namespace"), item["metadata"]["name"]

    def _record(self, path, kind, item):
        self.version += 1
        item = json.loads(json.dumps(item))
        item["metadata"]["resourceVersion"] = str(self.version)
        if kind == "DELETED":
            del self.objects[path][self._key(item)]
        else:
            self.objects[path][self._key(item)] = item
        self.history[path].append((self.version, kind, item))

    async def list_or_watch(self, request):
        if "watch" in request.query:
            return await self.watch(request)
        kind = PATHS[request.path]
        items = [
            item for _, item in sorted(self.objects[request.path].items(), key=lambda pair: str(pair[0]))
        ]
        begin = int(request.query.get("continue", "0"))
        if begin and self.expire_continues:
            self.expire_continues -= 1
            return web.json_response(
                status(410, "Expired", "The provided continue parameter is too old"), status=410
            )
        count = self.page_items or int(request.query.get("limit", "0")) or len(items)
        page = items[begin : begin + count]
        metadata = {"resourceVersion": str(self.version)}
        if begin + count < len(items):
            metadata |= {"continue": str(begin + count), "remainingItemCount": len(items) - begin - count}
        return web.json_response(
            {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata, "items": page or None}
        )

    async def watch(self, request):
        path = request.path
        since = int(request.query["resourceVersion"])
        assert request.query["allowWatchBookmarks"] == "true"
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            async with self.news:
                if since < self.oldest:
                    gone = status(410, "Expired", f"too old resource version: {since} ({self.oldest})")
                    await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
                    return response
                events = [one for one in self.history[path] if one[0] > since]
            for version, kind, item in events:
                line = json.dumps({"type": kind, "object": item}).encode() + b"\n"
                if self.cut_watches:
                    self.cut_watches -= 1
                    await response.write(line[: len(line) // 2])
                    request.transport.abort()
                    return response
                await response.write(line)
                since = version
            if not events:
                since = self.version
                mark = {
                    "kind": PATHS[path],
                    "metadata": {"resourceVersion": str(since), "creationTimestamp": None},
                }
                await response.write(json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n")
            async with self.news:
                if not any(one[0] > since for one in self.history[path]) and since >= self.oldest:
                    await self.news.wait()

    async def metrics_group(self, request):
        if not self.metrics_versions:
            return web.Response(text="404 page not found\n", status=404)
        versions = [
            {"groupVersion": f"metrics.k8s.io/{version}", "version": version}
            for version in self.metrics_versions
        ]
        group = {"kind": "APIGroup", "apiVersion": "v1", "name": "metrics.k8s.io"}
        return web.json_response(group | {"versions": versions, "preferredVersion": versions[0]})

    async def metrics(self, request):
        version, resource = request.match_info["version"], request.match_info["resource"]
        if version not in self.metrics_versions:
            return web.Response(text="404 page not found\n", status=404)
        items = {"pods": self.pod_metrics, "nodes": self.node_metrics}[resource]
        return web.json_response(
            {
                "kind": "PodMetricsList" if resource == "pods" else "NodeMetricsList",
                "apiVersion": f"metrics.k8s.io/{version}",
                "metadata": {},
                "items": items,
            }
        )

    async def log(self, request):
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        query = request.query
        self.log_queries.append((namespace, pod, dict(query)))
        previous = query.get("previous") == "true"
        lines = self.logs.get((namespace, pod, query["container"], previous))
        if (namespace, pod) not in self.objects["/api/v1/pods"]:
            return web.json_response(status(404, "NotFound", f'pods "{pod}" not found'), status=404)
        if lines is None:
            told = f'container "{query["container"]}" in pod "{pod}" is waiting to start: ContainerCreating'
            if previous:
                told = f'previous terminated container "{query["container"]}" in pod "{pod}" not found'
            return web.json_response(status(400, "BadRequest", told), status=400)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        sent = 0
        if "tailLines" in query:
            sent = max(0, len(lines) - int(query["tailLines"]))
        following = query.get("follow") == "true"
        self.log_streams += following
        self.most_log_streams = max(self.most_log_streams, self.log_streams)
        try:
            while True:
                for time, text in lines[sent:]:
                    # The kubelet gets whole seconds.
                    if time[:19] >= query.get("sinceTime", "")[:19]:
                        stamp = f"{time} ".encode() if query.get("timestamps") == "true" else b""
                        await response.write(stamp + text)
                    sent += 1
                present = self.logs.get((namespace, pod, query["container"], previous))
                if not (following and present is lines and self._runs(namespace, pod, query["container"])):
                    return response
                await asyncio.sleep(0.01)
        finally:
            self.log_streams -= following

    def _runs(self, namespace, pod, container):
        found = self.objects["/api/v1/pods"].get((namespace, pod))
        statuses = found["status"].get("containerStatuses", ()) if found else ()
        return any(one["name"] == container and "running" in one["state"] for one in statuses)

    async def workload(self, request):
        found = self._workload(request)
        if found is None:
            return self._missing(request)
        return web.json_response(self._shown(request, found))

    async def apply(self, request):
        body = json.loads(await request.read())
        self.applied.append((request.path, dict(request.query), body, request.headers["Content-Type"]))
        assert request.headers["Content-Type"] == "application/apply-patch+yaml"
        found = self._workload(request)
        if found is None:
            return self._missing(request)
        manager, wanted = request.query["fieldManager"], body["spec"]["replicas"]
        owners = [owner for owner in found["owners"] if owner != manager]
        if owners and wanted != found["replicas"] and request.query.get("force") != "true":
            causes = [
                {
                    "reason": "FieldManagerConflict",
                    "message": f'conflict with "{owner}" using apps/v1',
                    "field": ".spec.replicas",
                }
                for owner in owners
            ]
            told = f"Apply failed with {len(causes)} conflict: {causes[0]['message']}: .spec.replicas"
            return web.json_response(status(409, "Conflict", told, causes), status=409)
        found["replicas"] = wanted
        found["owners"] = [manager]
        return web.json_response(self._shown(request, found))

    def _workload(self, request):
        info = request.match_info
        return self.workloads.get((info["namespace"], info["plural"], info["name"]))

    def _missing(self, request):
        info = request.match_info
        told = f'{info["plural"]}.apps "{info["name"]}" not found'
        return web.json_response(status(404, "NotFound", told), status=404)

    def _shown(self, request, found):
        return {
            "apiVersion": "apps/v1",
            "metadata": {
                "name": request.match_info["name"],
                "namespace": request.match_info["namespace"],
                "annotations": found.get("annotations"),
            },
            "spec": {"replicas": found["replicas"]},
            "status": {"replicas": found.get("observed", found["replicas"]), "observedGeneration": 1},
        }
