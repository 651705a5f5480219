"""What engines answer, as recorded, with figures that are easy to reckon with."""

MIB = 1_048_576


def listed(id_, name, *, state="running", labels=None, ports=None, names=None):
    """An element of /containers/json of Docker 20.10, without what the agent ignores."""
    return {
        "Id": id_,
        "Names": [f"/{name}"] if names is None else names,
        "Image": "monitor-test:busybox",
        "ImageID": "sha256:989a6df04f162c1a44acff94fc983770e3b44b990e7c57ea698e4b128320c748",
        "Command": "sh -c 'while :; do :; done'",
        "Created": 1795219738,
        "Ports": [] if ports is None else ports,
        "Labels": labels or {},
        "State": state,
        "Status": "Up 3 minutes" if state == "running" else "Exited (0) 2 minutes ago",
        "HostConfig": {"NetworkMode": "none"},
        "NetworkSettings": {"Networks": {}},
        "Mounts": [],
    }


def cgroup_v1(*, total=1_051_707_019, system=1_469_400_000_000, read="2026-11-21T00:08:59.983158642Z"):
    """One-shot stats of Docker 20.10 on cgroup v1, without networks: precpu is empty."""
    return {
        "read": read,
        "preread": "0001-01-01T00:00:00Z",
        "pids_stats": {"current": 1},
        "blkio_stats": {"io_service_bytes_recursive": [], "io_serviced_recursive": []},
        "num_procs": 0,
        "storage_stats": {},
        "cpu_stats": {
            "cpu_usage": {"total_usage": total, "percpu_usage": [19_427_511, 1_032_279_508]},
            "system_cpu_usage": system,
            "online_cpus": 2,
            "throttling_data": {"periods": 0, "throttled_periods": 0, "throttled_time": 0},
        },
        "precpu_stats": {"cpu_usage": {"total_usage": 0}, "throttling_data": {}},
        "memory_stats": {
            "usage": 100 * MIB,
            "max_usage": 120 * MIB,
            "stats": {"inactive_file": 10 * MIB, "total_inactive_file": 20 * MIB, "rss": 61_440},
            "limit": 400 * MIB,
        },
        "name": "/web",
        "id": "a" * 64,
    }


def cgroup_v2(*, total=5_000_000_000, system=2_000_000_000_000):
    """Stats of an engine on cgroup v2 with two networks and block I/O on two devices."""
    return {
        "read": "2026-11-21T00:09:14.5Z",
        "blkio_stats": {
            "io_service_bytes_recursive": [
                {"major": 254, "minor": 0, "op": "read", "value": 4096},
                {"major": 254, "minor": 0, "op": "write", "value": 8192},
                {"major": 8, "minor": 0, "op": "Read", "value": 1},
                {"major": 8, "minor": 0, "op": "Write", "value": 2},
                {"major": 8, "minor": 0, "op": "Total", "value": 3},
            ]
        },
        "cpu_stats": {
            "cpu_usage": {"total_usage": total, "usage_in_usermode": total},
            "system_cpu_usage": system,
            "online_cpus": 4,
        },
        "memory_stats": {"usage": 64 * MIB, "stats": {"inactive_file": 16 * MIB}, "limit": 96 * MIB},
        "networks": {
            "eth0": {"rx_bytes": 100, "rx_packets": 1, "tx_bytes": 10, "tx_packets": 1},
            "eth1": {"rx_bytes": 1000, "rx_packets": 1, "tx_bytes": 1, "tx_packets": 1},
        },
    }


def stopped():
    """Stats of a container that does not run: status 200, and nothing in it."""
    return {
        "read": "0001-01-01T00:00:00Z",
        "preread": "0001-01-01T00:00:00Z",
        "pids_stats": {},
        "blkio_stats": {"io_service_bytes_recursive": None},
        "cpu_stats": {"cpu_usage": {"total_usage": 0}, "throttling_data": {}},
        "precpu_stats": {"cpu_usage": {"total_usage": 0}},
        "memory_stats": {},
    }
