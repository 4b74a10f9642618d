"""Carry out a validation: connect, run, write the report after every check, show the results."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop
from yarl import URL

from paceline.foundation.command_line.interruption import cancelled_by_signals, sigint_ignored
from paceline.foundation.results.environment import Environment, describe_environment
from paceline.foundation.results.files import write_document, write_text
from paceline.foundation.workloads import Prompt, load_prompt_file
from paceline.operations.validate.checks import CHECKS, Check, Deployment
from paceline.operations.validate.checks.scored_prompts import ScoredPrompt, read_scored_prompts
from paceline.operations.validate.report.comparison import Comparison, compare
from paceline.operations.validate.report.document import (
    Part,
    Server,
    ValidationDocument,
    make_document,
    render_document,
)
from paceline.operations.validate.report.page import render_validation
from paceline.operations.validate.report.reading import (
    ReportUnreadable,
    read_json,
    read_report,
    to_document,
)
from paceline.operations.validate.report.signing import (
    SignatureInvalid,
    check_signature,
    load_private_key,
    sign,
)
from paceline.operations.validate.settings import ValidationSettings
from paceline.operations.validate.target.target import SETTLE_S, Addresses, Identity, Target
from paceline.operations.validate.tiers import tiers
from paceline.operations.validate.validating import Validation
from paceline.operations.validate.values import CheckResult, Status, ValidationError


class Run:
    """One validation from its settings. Its document is complete at any moment."""

    def __init__(
        self,
        settings: ValidationSettings,
        *,
        on_begin: Callable[[int, Check[Any]], None] = lambda number, check: None,
        on_result: Callable[[CheckResult], None] = lambda result: None,
        settle_s: float = SETTLE_S,
    ) -> None:
        """Read all files. Raises `ReportUnreadable`, `KeyUnusable`, `WorkloadError`.

        `on_begin` gets the number of the check from 1.
        """
        self._settings = settings
        self._on_begin, self._on_result = on_begin, on_result
        self._settle_s = settle_s
        self._key = None if settings.key_file is None else load_private_key(settings.key_file)
        previous = settings.previous_file
        self._previous = None if previous is None else read_report(previous)
        self._earlier = self._read_earlier()
        self._prompts = _read_prompts(settings.prompts_file)
        self._scored_prompts = _read_scored(settings.prompts_file)
        self._config = {**settings.config(), "prompts_sha256": _digest(settings.prompts_file)}
        self._environment: Environment = describe_environment(sys.argv)
        self._identity: Identity | None = None
        self.validation = Validation(choose_checks(settings.only))

    def run(self) -> ValidationDocument:
        """The document, partial after Ctrl-C or SIGTERM.

        Raises ValidationError if the deployment cannot be validated at all.
        """
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(cancelled_by_signals(self.carry_out()))
        except (KeyboardInterrupt, asyncio.CancelledError):
            if self._identity is None:
                raise ValidationError("interrupted before the first check") from None
        with sigint_ignored():
            return self.write()

    async def carry_out(self) -> None:
        """Connect and run the checks; the report is written after each."""
        settings = self._settings
        admin_url = None if settings.admin_url is None else URL(settings.admin_url)
        addresses = Addresses(URL(settings.url), admin_url, settings.api_key, settings.admin_key)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            target = Target(session, addresses, settle_s=self._settle_s)
            self._identity = await target.identify(settings.model)
            self.validation = Validation(
                choose_checks(settings.only), self._kept(), self._begun, self._ended
            )
            await self.validation.run(
                Deployment(
                    target,
                    tiers()[settings.tier],
                    self._prompts,
                    settings.audit_seconds,
                    settings.is_shared,
                    settings.allows_drain,
                    settings.all_required(),
                    self._baseline(session),
                    self._scored_prompts,
                    settings.secrets(),
                )
            )

    def _baseline(self, session: aiohttp.ClientSession) -> Target | None:
        settings = self._settings
        if settings.baseline is None:
            return None
        addresses = Addresses(URL(settings.baseline), api_key=settings.baseline_api_key)
        return Target(session, addresses)

    def document(self) -> ValidationDocument:
        """The unsigned document of the results so far."""
        assert self._identity is not None
        settings, results = self._settings, self.validation.results
        return make_document(
            results,
            server=self._server(self._identity),
            tier=tiers()[settings.tier],
            required=settings.all_required(),
            config=self._config,
            environment=self._environment,
            comparison=self._compare(results),
            parts=self._parts(),
        )

    def write(self) -> ValidationDocument:
        """Write the report and the page, and return the document with its signature."""
        values = render_document(self.document())
        if self._key is not None:
            values = sign(values, self._key)
        document = msgspec.convert(values, ValidationDocument)
        if self._settings.json_file is not None:
            write_document(self._settings.json_file, values)
        if self._settings.html_file is not None:
            write_text(self._settings.html_file, render_validation(document))
        return document

    def _server(self, identity: Identity) -> Server:
        settings = self._settings
        return Server(
            settings.url, settings.admin_url, identity.kind, identity.model,
            identity.max_model_len, identity.version,
        )  # fmt: skip

    def _parts(self) -> tuple[Part, ...]:
        """The earlier runs, and this one with the checks that it has ended."""
        validation, environment = self.validation, self._environment
        ended = tuple(name for name in validation.done if name not in validation.kept)
        earlier = () if self._earlier is None else self._earlier.parts
        return (*earlier, Part(environment.date_utc, environment.paceline, ended))

    def _begun(self, check: Check[Any]) -> None:
        self._on_begin(len(self.validation.done) + 1, check)

    def _ended(self, result: CheckResult) -> None:
        self._on_result(result)
        self.write()

    def _read_earlier(self) -> ValidationDocument | None:
        """The report to resume. A signed one continues only one of the same key."""
        file = self._settings.json_file
        if not self._settings.resumes or file is None or not file.exists():
            return None
        values = read_json(file)
        if self._key is not None:
            try:
                check_signature(values, self._key.public_key())
            except SignatureInvalid as error:
                raise ReportUnreadable(f"--resume with --sign: {file}: {error}") from error
        return to_document(values, file)

    def _kept(self) -> Mapping[str, CheckResult]:
        """The final results of the earlier part. ValidationError if it had another deployment.

        `--admin-url` may be added: then checks that were skipped run again. So does a skipped one
        that `--require` did not name before: some are left out only because nothing names them.
        """
        earlier, settings, identity = self._earlier, self._settings, self._identity
        if earlier is None or identity is None:
            return {}
        server = self._server(identity)
        gains_admin_url = earlier.server.admin_url is None and server.admin_url is not None
        if gains_admin_url:
            server = replace(server, admin_url=None)
        names = [field.name for field in fields(Server)]
        for name, before, now in (
            *((name, getattr(earlier.server, name), getattr(server, name)) for name in names),
            ("tier", earlier.tier, tiers()[settings.tier]),
            ("settings", earlier.config, self._config),
        ):
            if before != now:
                raise ValidationError(
                    f"--resume: {settings.json_file} has another {name} ({before!r}, not {now!r}); "
                    "repeat the settings, or leave --resume out to begin again"
                )
        newly_required = set(settings.all_required()) - set(earlier.required)
        return {
            check.id: check
            for check in earlier.checks
            if check.is_final
            and not (
                check.status is Status.SKIP and (gains_admin_url or check.id in newly_required)
            )
        }

    def _compare(self, results: Sequence[CheckResult]) -> Comparison | None:
        previous = self._previous
        if previous is None:
            return None
        return compare(
            previous.checks,
            results,
            previous_date_utc=previous.environment.date_utc,
            previous_model=previous.server.model,
            previous_tier=previous.tier.name,
        )


def choose_checks(only: Sequence[str]) -> tuple[Check[Any], ...]:
    """The checks of these ids, or all, in the order of the catalogue."""
    return tuple(check for check in CHECKS if not only or check.id in only)


def _read_prompts(file: str | None) -> tuple[Prompt, ...]:
    return () if file is None else tuple(load_prompt_file(Path(file)))


def _read_scored(file: str | None) -> tuple[ScoredPrompt, ...]:
    return () if file is None else read_scored_prompts(Path(file))


def _digest(file: str | None) -> str | None:
    """Of the prompts, so that `--resume` notices others under the same name."""
    return None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()
