"""What will not work on this machine, found before anything is loaded.

`reading` gathers `facts.StartupFacts`, `checks` judges them, `report` prints the results. Each
check is a pure function of the facts; a check that lacks a fact gives no verdict, and never keeps a
server from starting.
"""
