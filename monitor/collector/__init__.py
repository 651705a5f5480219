"""The agent: reads a Docker host and pushes what it sees to the service.

It only ever opens connections, never a port, and shares with the service
nothing but the structs of ``monitor.wire``.
"""
