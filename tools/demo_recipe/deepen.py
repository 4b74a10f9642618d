"""Make the twin: a costlier model with the same outputs, by padding.

    PYTHONPATH=tools python -m demo_recipe.deepen SOURCE OUT

Benchmarks use it for the cost of a larger target. With the default sizes, the bundled 11M target
becomes a twin of about 120M parameters that still has the answers of 11M. Added layers have zero
output projections, so they add nothing to the residual stream. Widened feed-forward blocks are
padded with zeros, which adds zeros to a sum; a kernel may then sum in another order, so logits can
differ in the last bit. The other added weights are random, so that no kernel can skip work. Every
result measured with a twin must say so.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor


def deepen(source: Path, out: Path, *, num_layers: int, intermediate_size: int) -> int:
    """Write the twin of the Qwen2 model in `source` to `out`; returns its number of parameters.

    Raises ValueError when the twin would be smaller than the source.
    """
    config = json.loads((source / "config.json").read_text())
    old_layers, old_size = config["num_hidden_layers"], config["intermediate_size"]
    if num_layers < old_layers or intermediate_size < old_size:
        raise ValueError(
            f"got {num_layers} layers and intermediate size {intermediate_size}; the twin needs "
            f"at least those of {source}: {old_layers} and {old_size}"
        )
    weights = load_file(source / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    for layer in range(old_layers):
        prefix = f"model.layers.{layer}.mlp"
        for name in ("gate_proj", "up_proj"):
            old = weights[f"{prefix}.{name}.weight"]
            extra = _random_like(old, (intermediate_size - old_size, old.shape[1]), generator)
            weights[f"{prefix}.{name}.weight"] = torch.cat((old, extra))
        old = weights[f"{prefix}.down_proj.weight"]
        extra = torch.zeros(old.shape[0], intermediate_size - old_size, dtype=old.dtype)
        weights[f"{prefix}.down_proj.weight"] = torch.cat((old, extra), dim=1)
    first_layer = [name for name in weights if name.startswith("model.layers.0.")]
    for layer in range(old_layers, num_layers):
        for name in first_layer:
            shape = tuple(weights[name].shape)
            is_output = name.endswith(("o_proj.weight", "down_proj.weight"))
            added = name.replace("layers.0.", f"layers.{layer}.")
            weights[added] = (
                torch.zeros(shape, dtype=weights[name].dtype)
                if is_output
                else _random_like(weights[name], shape, generator)
            )
    _write(source, out, config, weights, num_layers, intermediate_size)
    return sum(w.numel() for w in weights.values())


def _random_like(like: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return (torch.randn(shape, generator=generator) * 0.02).to(like.dtype)


def _write(
    source: Path,
    out: Path,
    config: dict[str, object],
    weights: dict[str, Tensor],
    num_layers: int,
    intermediate_size: int,
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            shutil.copyfile(path, out / path.name)
    config["num_hidden_layers"] = config["max_window_layers"] = num_layers
    config["layer_types"] = ["full_attention"] * num_layers
    config["intermediate_size"] = intermediate_size
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(
        {name: w.contiguous() for name, w in weights.items()},
        out / "model.safetensors",
        metadata={"format": "pt"},
    )


@click.command()
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--layers", default=12, show_default=True)
@click.option("--intermediate-size", default=8192, show_default=True)
def main(source: Path, out: Path, layers: int, intermediate_size: int) -> None:
    """Write a twin of SOURCE to OUT: the same outputs at a higher cost, by padding."""
    try:
        count = deepen(source, out, num_layers=layers, intermediate_size=intermediate_size)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"{out}: {count / 1e6:.0f}M parameters, {layers} layers")


if __name__ == "__main__":
    main()
