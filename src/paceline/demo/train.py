"""Make the bundled pair: `python -m paceline.demo.train STAGE --work FOLDER`.

Stages, each resumable where it is long: `prepare` reads the standard library, `target` trains
the target, `draft` distils the draft from it, `export` writes both in Hugging Face layout,
`evaluate` measures them and writes the model card. `all` runs them in order; two cores take about
two hours.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import torch

from paceline.demo import dataset
from paceline.demo.model import DRAFT_SHAPE, TARGET_SHAPE, Qwen2, Shape
from paceline.demo.training import Schedule, next_token_loss, train

TARGET_SCHEDULE = Schedule(num_steps=1000, rows=8)
"""8.2M tokens: what two cores manage in about an hour, and the smaller half of the cost."""


def _model(shape: Shape, seed: int) -> Qwen2:
    torch.manual_seed(seed)
    return Qwen2(shape)


@click.group()
@click.option("--work", type=click.Path(path_type=Path), default=Path("runs/demo"),
              show_default=True, help="Folder for data, checkpoints and logs.")
@click.option("--seed", default=0, show_default=True)
@click.option("--threads", default=2, show_default=True, help="Compute threads.")
@click.pass_context
def main(context: click.Context, work: Path, seed: int, threads: int) -> None:
    """Make the bundled pair."""
    torch.set_num_threads(threads)
    context.obj = (work, seed)


@main.command()
@click.pass_obj
def prepare(settings: tuple[Path, int]) -> None:
    """Read the standard library, learn the tokenizer, write rows of tokens."""
    work, seed = settings
    dataset.prepare(work / "data", seed)


@main.command()
@click.option("--steps", default=TARGET_SCHEDULE.num_steps, show_default=True)
@click.pass_obj
def target(settings: tuple[Path, int], steps: int) -> None:
    """Train the target; continues where it stopped."""
    work, seed = settings
    train(
        _model(TARGET_SHAPE, seed),
        dataset.Dataset(work / "data"),
        replace(TARGET_SCHEDULE, num_steps=steps),
        work / "target",
        seed=seed,
        loss=next_token_loss,
    )


if __name__ == "__main__":
    main()
