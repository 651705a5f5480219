"""Objects as API servers write them, with figures that are easy to reckon with."""

STARTED = "2026-11-21T00:00:05Z"


def pod(
    name="web-7d4b9c6f5d-x2x7q",
    namespace="shop",
    *,
    uid=None,
    node="node-1",
    phase="Running",
    labels=None,
    owner=("ReplicaSet", "web-7d4b9c6f5d"),
    containers=("app",),
    requests=None,
    limits=None,
    restarts=0,
    ready=True,
    states=None,
    init=(),
    container_ids=None,
):
    """A pod, with what the agent does not read too.

    `states` and `container_ids` are by container; `init` are whole init containers.
    """
    resources = {
        "requests": {"cpu": "250m", "memory": "256Mi"} if requests is None else requests,
        "limits": {"memory": "512Mi"} if limits is None else limits,
    }
    metadata = {
        "name": name,
        "generateName": "web-7d4b9c6f5d-",
        "namespace": namespace,
        "uid": uid or f"uid-{namespace}-{name}",
        "resourceVersion": "0",
        "creationTimestamp": "2026-11-21T00:00:00Z",
        "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5d"} if labels is None else labels,
        "annotations": {"prometheus.io/scrape": "true"},
        "managedFields": [
            {
                "manager": "kubelet",
                "operation": "Update",
                "apiVersion": "v1",
                "time": STARTED,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:status": {"f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:status": {}}}}},
            }
        ],
    }
    if owner:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": owner[0],
                "name": owner[1],
                "uid": f"uid-{owner[1]}",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    default_state = (
        {"running": {"startedAt": STARTED}} if phase == "Running" else {"waiting": {"reason": "Pending"}}
    )
    statuses = [
        {
            "name": one,
            "state": (states or {}).get(one, default_state),
            "lastState": {},
            "ready": ready,
            "restartCount": restarts,
            "image": f"registry.example/{one}:1",
            "imageID": f"registry.example/{one}@sha256:{'0' * 64}",
            "containerID": (container_ids or {}).get(one, f"containerd://{one}-1"),
            "started": True,
        }
        for one in containers
    ]
    return {
        "metadata": metadata,
        "spec": {
            "volumes": [{"name": "token", "projected": {"sources": [], "defaultMode": 420}}],
            **({"initContainers": list(init)} if init else {}),
            "containers": [
                {
                    "name": one,
                    "image": f"registry.example/{one}:1",
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "env": [{"name": "COLOR", "value": "green"}],
                    "resources": resources,
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "IfNotPresent",
                }
                for one in containers
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            **({"nodeName": node} if node else {}),
            "securityContext": {},
            "schedulerName": "default-scheduler",
        },
        "status": {
            "phase": phase,
            "conditions": [
                {
                    "type": "Initialized",
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": STARTED,
                },
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": STARTED,
                },
            ],
            "hostIP": "10.0.0.1",
            **({"podIP": "10.42.0.7", "podIPs": [{"ip": "10.42.0.7"}]} if node else {}),
            **({"startTime": STARTED} if node else {}),
            **({"containerStatuses": statuses} if node else {}),
            "qosClass": "Burstable",
        },
    }


def node(name="node-1", *, ready="True", labels=None, capacity=None, allocatable=None):
    """A node of 4 cores and 16 GiB, of which 3.8 cores and 15 GiB are allocatable."""
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "0",
            "creationTimestamp": "2026-11-20T00:00:00Z",
            "labels": {
                "kubernetes.io/hostname": name,
                "node-role.kubernetes.io/control-plane": "",
                "node-role.kubernetes.io/master": "",
            }
            if labels is None
            else labels,
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": "10.42.0.0/24"},
        "status": {
            "capacity": capacity
            or {
                "cpu": "4",
                "memory": "16Gi",
                "pods": "110",
                "ephemeral-storage": "100Gi",
                "hugepages-2Mi": "0",
            },
            "allocatable": allocatable
            or {"cpu": "3800m", "memory": "15Gi", "pods": "110", "ephemeral-storage": "92Gi"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": STARTED},
                {"type": "Ready", "status": ready, "reason": "KubeletReady", "lastHeartbeatTime": STARTED},
            ],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": "m",
                "kernelVersion": "6.1.0",
                "osImage": "Debian GNU/Linux 12 (bookworm)",
                "containerRuntimeVersion": "containerd://1.7.2",
                "kubeletVersion": "v1.33.1",
                "kubeProxyVersion": "v1.33.1",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "images": [{"names": ["registry.example/app:1"], "sizeBytes": 1}],
        },
    }


def replica_set(name="web-7d4b9c6f5d", namespace="shop", deployment="web"):
    """A ReplicaSet as the whole object, or what of it is asked for."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "0"}
    if deployment:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": deployment,
                "uid": "d",
                "controller": True,
            }
        ]
    return {"metadata": metadata, "spec": {"replicas": 2, "template": {"spec": {"containers": []}}}}


def pod_metrics(name="web-7d4b9c6f5d-x2x7q", namespace="shop", **usage):
    """The usage of a pod's containers: `app=("125m", "64Mi")`."""
    return {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": STARTED},
        "timestamp": STARTED,
        "window": "15.012s",
        "containers": [
            {"name": one, "usage": {"cpu": cpu, "memory": memory}} for one, (cpu, memory) in usage.items()
        ],
    }


def node_metrics(name="node-1", cpu="1900m", memory="8Gi"):
    return {
        "metadata": {"name": name, "creationTimestamp": STARTED},
        "timestamp": STARTED,
        "window": "20.1s",
        "usage": {"cpu": cpu, "memory": memory},
    }
