"""Reads the machine, the packages and the models. For other rooms: `gathering.gather_facts`."""
