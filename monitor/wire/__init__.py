"""The structs that agents and the service exchange."""
