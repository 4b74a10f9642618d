"""Execute a Containerfile step by step without a container engine, in chroots made by debootstrap.

`steps` parses the file, `chroots` runs the steps, `served` starts the result and asks it. It
knows the instructions that this project's files use, and refuses others.
"""
