"""The command channel: what agents are told to do, asked for by themselves."""
