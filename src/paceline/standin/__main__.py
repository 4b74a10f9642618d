"""`python -m paceline.standin`: the command without the other commands' imports."""

from paceline.standin.command import simulate

simulate()
