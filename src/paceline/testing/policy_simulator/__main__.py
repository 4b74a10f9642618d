"""Entry point of `python -m paceline.testing.policy_simulator`."""

from paceline.testing.policy_simulator.command import main

raise SystemExit(main())
