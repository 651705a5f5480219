"""The Prometheus HTTP API below ``/prometheus``, for Grafana, promtool and every other client of it."""
