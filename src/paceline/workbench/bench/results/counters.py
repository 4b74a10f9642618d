"""Find and read the page on which a server reports its speculation counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
from yarl import URL

from paceline.workbench.bench.results.speculation import (
    COUNTER_FELL,
    Speculation,
    SpeculationCounters,
    add_difference,
    compare_counters,
    counters_from_governor,
    counters_from_metrics,
    governor_states,
    has_fallen,
    unknown_speculation,
)

_GOVERNOR_PATH = "admin/governor"
_METRICS_PATH = "metrics"
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
_TIMEOUT = aiohttp.ClientTimeout(total=10)
NO_COUNTERS = "no speculation counters found; name the admin port with --admin-url"


class CountersUnavailable(Exception):
    """The page does not hold the counters. The message says what it answered."""


@dataclass(frozen=True, slots=True)
class CounterReading:
    """One reading of one page."""

    page: URL
    counters: SpeculationCounters
    document: object
    """The parsed /admin/governor answer; None for a metrics page."""


async def find_counters(
    session: aiohttp.ClientSession, server: URL, admin: URL | None, api_key: str | None = None
) -> CounterReading | None:
    """Read the first page that holds speculation counters; None when no page does.

    With `admin`, only that server is read; CountersUnavailable says what it answered. Otherwise the
    server's own /metrics is read first (a bare vLLM). Then, if the server is a Paceline on
    loopback, its admin port, which is the data port plus one by default. Next to any other server
    that port may belong to an unrelated process.
    """
    if admin is not None:
        pages = [admin / _GOVERNOR_PATH, admin / _METRICS_PATH]
    else:
        pages = [server / _METRICS_PATH]
        if (
            server.host in _LOOPBACK_HOSTS
            and server.port is not None
            and server.port < 65535
            and await _is_paceline(session, server, api_key)
        ):
            admin_guess = server.origin().with_port(server.port + 1)
            pages += [admin_guess / _GOVERNOR_PATH, admin_guess / _METRICS_PATH]
    failures = []
    for page in pages:
        try:
            return await _read_page(session, page)
        except CountersUnavailable as failure:
            failures.append(str(failure))
    if admin is not None:
        raise CountersUnavailable("; ".join(failures))
    return None


async def finish_counters(
    session: aiohttp.ClientSession, before: CounterReading | None
) -> Speculation:
    """Acceptance since `before`, from a second reading of the same page."""
    if before is None:
        return unknown_speculation(NO_COUNTERS)
    try:
        after = await _read_page(session, before.page)
    except CountersUnavailable as failure:
        return unknown_speculation(str(failure), str(before.page))
    return compare_readings([(before, after)])


async def read_again(
    session: aiohttp.ClientSession, reading: CounterReading | None
) -> CounterReading | None:
    """The same page now; None if there was no reading or the page cannot be read."""
    if reading is None:
        return None
    try:
        return await _read_page(session, reading.page)
    except CountersUnavailable:
        return None


def compare_readings(
    pairs: Sequence[tuple[CounterReading | None, CounterReading | None]],
) -> Speculation:
    """Acceptance over one or several windows, from the readings before and after each.

    Unknown when a reading is missing, or when a counter fell because an engine restarted.
    """
    known = [(before, after) for before, after in pairs if before is not None and after is not None]
    if not known or len(known) < len(pairs):
        return unknown_speculation(NO_COUNTERS if not known else "a reading of the counters failed")
    if any(has_fallen(before.counters, after.counters) for before, after in known):
        return unknown_speculation(COUNTER_FELL, str(known[0][0].page))
    (before, after), *later = known
    counters = after.counters
    for earlier, last in later:
        # The windows are laid end to end: the last totals, without what lies between the windows.
        counters = add_difference(counters, earlier.counters, last.counters)
    states = tuple(governor_states(known[-1][1].document))
    return compare_counters(before.counters, counters, str(before.page), states)


async def _is_paceline(session: aiohttp.ClientSession, server: URL, api_key: str | None) -> bool:
    """Whether /v1/models says that the server is a Paceline; False when it cannot be read."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key is not None else {}
    try:
        async with session.get(
            server / "v1" / "models", headers=headers, timeout=_TIMEOUT, allow_redirects=False
        ) as response:
            document = await response.json(content_type=None) if response.status == 200 else None
    except (TimeoutError, aiohttp.ClientError, ValueError):
        return False
    models = document.get("data") if isinstance(document, dict) else None
    return isinstance(models, list) and any(
        isinstance(model, dict) and model.get("owned_by") == "paceline" for model in models
    )


async def _read_page(session: aiohttp.ClientSession, page: URL) -> CounterReading:
    try:
        async with session.get(page, timeout=_TIMEOUT, allow_redirects=False) as response:
            if response.status != 200:
                raise CountersUnavailable(f"{page} answered with status {response.status}")
            document = None
            if page.name == "governor":
                document = await response.json(content_type=None)
                counters = counters_from_governor(document)
            else:
                counters = counters_from_metrics(await response.text())
    except (TimeoutError, aiohttp.ClientError, ValueError) as error:
        raise CountersUnavailable(f"cannot read {page}: {error or type(error).__name__}") from error
    if counters is None:
        raise CountersUnavailable(f"{page} holds no speculation counters")
    return CounterReading(page, counters, document)
