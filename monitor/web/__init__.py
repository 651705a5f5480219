"""HTTP, for every feature: bodies, errors, streams, background work, the API's description."""
