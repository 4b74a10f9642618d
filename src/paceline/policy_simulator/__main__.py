"""Entry point of `python -m paceline.policy_simulator`."""

from paceline.policy_simulator.command import main

raise SystemExit(main())
