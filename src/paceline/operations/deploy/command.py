"""The commands `paceline deploy render` and `paceline deploy diff`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from paceline.foundation.command_line.option_types import (
    refuse_unwritable_file,
    refuse_unwritable_folder,
)
from paceline.foundation.command_line.output_files import write_files
from paceline.foundation.planning.values import PlanError
from paceline.operations.deploy.bundle import MonitoringFiles, render_bundle
from paceline.operations.deploy.difference import Resource, compare, resources_of
from paceline.operations.deploy.options import deployment_of, render_options
from paceline.operations.deploy.summary import SCHEMA_VERSION, SUMMARY, cost_lines, summary_of
from paceline.operations.deploy.tiers import find_tier
from paceline.operations.deploy.values import DeployError


@click.group()
def deploy() -> None:
    """Write Kubernetes manifests, and show what a change of them alters and costs."""


@deploy.command(
    epilog="""\b
Examples:
  paceline deploy render --tier startup --out deployment
      One GPU with the default model of the tier
  paceline deploy render Qwen/Qwen3-32B-FP8 --tier mid-market --gpu h100 --tensor-parallel 1 \\
      --replicas 2 --max-replicas 6 --image registry.example/paceline@sha256:… --out deployment
  paceline deploy render ./my-model --tier startup --model-claim models --out deployment
      A model of your own, in the folder my-model of the PersistentVolumeClaim models
  paceline deploy render --tier enterprise --pool trtllm --pool triton --out deployment
      Two more pools: the model with TensorRT-LLM, and with Triton
  paceline deploy render --tier enterprise --backend trtllm=trt.models.svc:8000 --out deployment
""",
)
@click.argument("model", required=False)
@render_options
def render(model: str | None, tier: str, folder: Path, **options: Any) -> None:
    """Write the manifests of a tier into a folder, with a README and a summary.

    MODEL is a folder with config.json or a name that `paceline plan` knows; each tier has a
    default. The same options give the same bytes.
    """
    refuse_unwritable_folder("--out", folder)
    try:
        chosen = find_tier(tier)
        deployment, figures = deployment_of(chosen, model, options)
        files = render_bundle(deployment, chosen, figures, _monitoring_files())
    except (DeployError, PlanError) as error:
        raise click.UsageError(str(error)) from None
    write_files(folder, files)
    click.echo(f"{len(files)} files in {folder}; {folder / 'README.md'} says how to apply them")


@deploy.command(
    epilog="""\b
Examples:
  paceline deploy render --tier startup --out now
  paceline deploy render --tier mid-market --out next
  paceline deploy diff now next
""",
)
@click.argument("old", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("new", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write the differences as JSON; - for standard output.",
)
def diff(old: Path, new: Path, json_file: Path | None) -> None:
    """Compare two rendered folders: resources, fields, GPUs, capacity and rent."""
    refuse_unwritable_file("--json", json_file)
    (old_summary, before), (new_summary, after) = _read(old), _read(new)
    changes = compare(before, after)
    if json_file is not None:
        document = {
            "schema_version": SCHEMA_VERSION,
            "kind": "deploy-diff",
            "old": old_summary,
            "new": new_summary,
            "changes": [
                {"kind": change.kind, "resource": change.resource, "fields": change.fields}
                for change in changes
            ],
        }
        text = json.dumps(document, indent=1) + "\n"
        if str(json_file) == "-":
            click.echo(text, nl=False)
            return
        write_files(json_file.parent, {json_file.name: text})
    for line in cost_lines(old_summary, new_summary):
        click.echo(line)
    click.echo("")
    for change in changes:
        click.echo(f"{change.kind:8} {change.resource}")
        for field in change.fields:
            click.echo(f"           {field}")
    if not changes:
        click.echo("no resource changes")


def _monitoring_files() -> MonitoringFiles:
    """The alert rules and dashboards that `paceline render` writes."""
    from paceline.operations.monitoring.alerts import AlertOptions, render_alert_rules
    from paceline.operations.monitoring.command import RULES_FILE
    from paceline.operations.monitoring.dashboards import DASHBOARDS
    from paceline.operations.monitoring.dashboards.model import render_dashboard
    from paceline.operations.monitoring.queries import MetricQueries

    queries = MetricQueries()
    return MonitoringFiles(
        {RULES_FILE: render_alert_rules(AlertOptions())},
        {name: render_dashboard(make(queries)) for name, make in DASHBOARDS.items()},
    )


def _read(folder: Path) -> tuple[Mapping[str, Any], dict[str, Resource]]:
    """The summary of a rendered folder and its resources. Raises `click.UsageError`."""
    for name in (SUMMARY, "kustomization.yaml"):
        if not (folder / name).is_file():
            raise click.UsageError(
                f"{folder} has no {name}; give a folder that `paceline deploy render` wrote"
            )
    try:
        files = {
            str(path.relative_to(folder)): _text(path)
            for path in sorted(folder.rglob("*"))
            if path.suffix in (".yaml", ".json") and path.is_file()
        }
        return summary_of(files[SUMMARY]), resources_of(files)
    except (DeployError, OSError) as error:
        raise click.UsageError(f"{folder}: {error}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DeployError(f"{path.name} is not UTF-8") from None
