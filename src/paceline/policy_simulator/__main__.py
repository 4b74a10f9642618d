"""`python -m paceline.policy_simulator`: all arms on a named trace and profile, as a table or JSON."""

from paceline.policy_simulator.command import main

raise SystemExit(main())
