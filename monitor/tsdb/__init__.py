"""VictoriaMetrics: the guard of selectors, the catalogue of metrics, the client."""
