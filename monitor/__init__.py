"""Infrastructure monitoring for many organizations."""

__version__ = "0.1.0"
