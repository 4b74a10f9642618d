"""HTTP: ports, connections, bodies, answers and errors, without knowledge of engines or models.

Nothing here imports another package of the gateway; the others import these modules by name.
"""
