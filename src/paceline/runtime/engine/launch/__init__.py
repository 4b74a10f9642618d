"""How one engine is started: drafter, layout on the machine, command line and environment.

For other parts: `command` (EngineSpec to EngineCommand), `layout.choose_layout`,
`hardware.read_hardware`, `model_folder` (checks of models on disk), `speculation.choose_drafter`.
This file imports nothing: the guard process loads the package and must stay small.
"""
