"""Importing this ends the process together with its parent: for a fork server, which runs nothing
of its own. Its forks keep the pipe open by which it would notice that its parent has ended."""

from paceline.runtime.engine.process.parent_watch import die_with_parent

die_with_parent()
