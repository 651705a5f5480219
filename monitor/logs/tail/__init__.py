"""The live tail: lines of a container or pod, from its agent to whoever watches."""
