"""The agent's Kubernetes side: what a cluster's API tells, its pods' logs, and its workloads' replicas.

A cluster has one agent.  It lists and watches through the API server alone, decodes
only the fields that are pushed, and needs no rights but reading, and ``patch`` where
it is to scale.
"""
