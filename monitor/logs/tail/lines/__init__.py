"""The lines of live tails on their way: taken from agents, read by whoever watches."""
