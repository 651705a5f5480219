"""Rules and pushes to write tests with."""

from __future__ import annotations

from typing import Any

CPU = "container_cpu_usage_percent"
RUNNING = {"state": "running", "memoryUsageMB": 100}


def container(name: str = "web-1", cpu: float | None = None, **fields: Any) -> dict[str, Any]:
    """Return a running container as agents push it."""
    numbers = {} if cpu is None else {"cpuPercent": cpu}
    return {"id": f"id-of-{name}", "name": name, **RUNNING, **numbers, **fields}


async def new_rule(
    api: Any, metric: str = CPU, operator: str = "gt", threshold: float = 80, **fields: Any
) -> Any:
    """Create a rule, which must be accepted, and return it."""
    body = {"name": "a rule", "metric": metric, "operator": operator, "threshold": threshold, **fields}
    async with api.post("/api/v1/alerts/rules", json=body) as response:
        assert response.status == 201, await response.text()
        return await response.json()


async def put(api: Any, path: str, status: int = 204, **options: Any) -> None:
    async with api.put(path, **options) as response:
        assert response.status == status, await response.text()


async def open_alerts(api: Any) -> list[Any]:
    return [alert for alert in await api.json("/api/v1/alerts") if alert["state"] != "resolved"]
