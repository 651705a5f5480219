"""The durable stream of samples between a push's answer and VictoriaMetrics."""
