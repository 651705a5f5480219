"""The channel types, one file each, and the channels that organizations make of them.

A new type is a copy of a similar file, a line in ``kinds.py``, and its name in
``models.py`` and in the table's CHECK.
"""
