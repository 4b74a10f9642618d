"""HTTP: ports, connections, bodies, answers and errors, without knowledge of engines or models.

Nothing here imports another room; the other rooms import the modules by name.
"""
