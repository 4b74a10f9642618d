"""`python -m paceline.simulator`: all arms on a named trace and profile, as a table or JSON."""

from paceline.simulator.command import main

raise SystemExit(main())
