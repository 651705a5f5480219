"""The embedded stack of ``monitor dev``: everything the service needs, on this machine, below one folder."""
