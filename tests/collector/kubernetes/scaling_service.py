"""The service's side of scaling, beside the rest of the stand-in."""

import json

from aiohttp import web

from tests.collector.fakes import TOKEN, FakeService


class ScalingService(FakeService):
    """Gives manifests and takes reports; `…_answers` go out first, one for each request."""

    def __init__(self):
        super().__init__()
        self.manifests = []
        self.reports = []  # the statuses of each report that was taken
        self.desired_answers = []
        self.report_answers = []
        self.unchanged = 0  # answers of 304

    def app(self):
        app = super().app()
        app.router.add_get("/api/v1/agents/{agent_id}/scaling/desired", self.desired)
        app.router.add_post("/api/v1/agents/{agent_id}/scaling/status", self.status)
        return app

    def wants(self, replicas, *, policy="scp_1", kind="Deployment", name="web", generation=1, **changes):
        """Want so many replicas of a workload, beside what else is wanted."""
        document = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"replicas": replicas},
        } | changes
        self.manifests = [one for one in self.manifests if one["policyId"] != policy] + [
            {
                "policyId": policy,
                "targetRef": f"shop/{kind}/{name}",
                "generation": generation,
                "manifest": json.dumps(document, indent=2) + "\n",
            }
        ]

    async def desired(self, request):
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        if self.desired_answers:
            return self.desired_answers.pop(0)()
        body = json.dumps({"manifests": self.manifests})
        etag = f'"{hash(body):x}"'
        if request.headers.get("If-None-Match") == etag:
            self.unchanged += 1
            return web.Response(status=304, headers={"ETag": etag})
        return web.Response(text=body, content_type="application/json", headers={"ETag": etag})

    async def status(self, request):
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        if self.report_answers:
            return self.report_answers.pop(0)()
        self.reports.append((await request.json())["statuses"])
        return web.Response(status=204)

    @property
    def told(self):
        """Status, message and observed replicas of each policy, as told last."""
        return {
            one["policyId"]: (one["status"], one["message"], one["observedReplicas"])
            for report in self.reports
            for one in report
        }
