"""Start servers and measure trials on them, as the search asks.

For other rooms: `carry_out`, the launchers `PacelineLauncher` and `CommandLauncher`, and
`LoadSettings`.
"""

from paceline.workbench.tune.live.block import LoadSettings
from paceline.workbench.tune.live.carry_out import Launcher, TrialServer, carry_out
from paceline.workbench.tune.live.servers import CommandLauncher, PacelineLauncher

__all__ = [
    "CommandLauncher",
    "Launcher",
    "LoadSettings",
    "PacelineLauncher",
    "TrialServer",
    "carry_out",
]
