"""Modules that import the clocks of the event loop run in virtual time."""

from __future__ import annotations

from unit.bench.trace.virtual_time import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
