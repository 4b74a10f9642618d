"""The command `paceline quantize`: parse the options, quantize, say what was written.

Exit codes: 0 written, 1 failed, 2 wrong usage, 130 interrupted. What quantizes is imported only
when the command runs, so that `--help` stays fast.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from paceline.foundation.command_line.option_types import (
    AT_LEAST_1,
    NamedChoice,
    refuse_unwritable_folder,
)
from paceline.foundation.compatibility.hardware_classes import HARDWARE_CLASSES, HardwareClass
from paceline.foundation.compatibility.number_formats import judge_format
from paceline.foundation.compatibility.vllm_releases import INSTALLED
from paceline.foundation.quantized.schemes import SCHEMES

_EXIT_INTERRUPTED = 130
_MAX_SEED = 2**63 - 1
"""torch takes no larger ones."""
_EXAMPLES = """\b
Examples:
  paceline quantize ./my-model --scheme w8a8 --out ./my-model-int8
      INT8, the first choice on CPUs; needs no calibration
  paceline quantize ./my-model --scheme smoothquant --calibration prompts.jsonl --out ./my-int8
      INT8 fitted to your own prompts, as fast; where w8a8 costs too much quality
  paceline quantize ./my-model --scheme awq --calibration prompts.jsonl --out ./my-model-awq
      4 bits, fitted to your own prompts, which pass through the model's chat template
  paceline quantize smollm2 --scheme gptq --group-size 64 --out ./smollm2-gptq
      The chat model of the first page; `bundled` is the code model shipped with Paceline
  paceline quantize ./my-model --scheme nvfp4 --hardware gpu-blackwell --out ./my-model-fp4
      For another machine than this one
  paceline serve ./my-model-int8
      Serve the result; so does `vllm serve ./my-model-int8`, without Paceline

A line of FILE.jsonl is {"messages": [{"role": "user", "content": "..."}]} or {"prompt": "..."}.
An interrupted run continues where it was when the same command is given again; with --backend
llm-compressor it begins anew.
"""
_SCHEME_LIST = "; ".join(f"{scheme.name}: {scheme.summary}" for scheme in SCHEMES.values())


@click.command(
    name="quantize",
    help=(
        "Quantize MODEL, a folder, a Hugging Face name, `smollm2` or `bundled`, into a folder that "
        "unmodified vLLM loads. Where it comes from is in its paceline-provenance.json.\n\n"
        f"Schemes: {_SCHEME_LIST}."
    ),
    epilog=_EXAMPLES,
)
@click.argument("model")
@click.option("--scheme", type=NamedChoice(list(SCHEMES)), required=True, help="Number format.")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR",
    help="Folder to write; it must not exist.",
)  # fmt: skip
@click.option(
    "--calibration", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.jsonl",
    help="Prompts to calibrate on, for awq, gptq and smoothquant.  [default: built-in prompts]",
)  # fmt: skip
@click.option(
    "--calibration-samples", "num_samples", type=AT_LEAST_1, default=128, show_default=True,
    metavar="N", help="Prompts drawn from the file.",
)  # fmt: skip
@click.option(
    "--calibration-tokens", "max_tokens", type=click.IntRange(min=16), default=1024,
    show_default=True, metavar="N", help="Most tokens per prompt.",
)  # fmt: skip
@click.option(
    "--group-size", type=AT_LEAST_1, metavar="N",
    help="Inputs that share a scale, for awq and gptq.  [default: 128, or the most that fits]",
)  # fmt: skip
@click.option(
    "--hardware", type=NamedChoice(list(HARDWARE_CLASSES)),
    help="What the result is for.  [default: this machine]",
)  # fmt: skip
@click.option(
    "--backend", type=NamedChoice(["own", "llm-compressor"]), default="own", show_default=True,
    help="Paceline's own methods, or llm-compressor in an environment of its own, which is created "
    "first.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0, _MAX_SEED), default=0, show_default=True, metavar="N",
    help="Draws the samples.",
)  # fmt: skip
def quantize(
    model: str,
    scheme: str,
    out: Path,
    calibration: Path | None,
    num_samples: int,
    max_tokens: int,
    group_size: int | None,
    hardware: HardwareClass | None,
    backend: str,
    seed: int,
) -> None:
    """Parse, quantize, report."""
    refuse_unwritable_folder("--out", out)

    from paceline.foundation.quantized.errors import QuantizeError, WrongUsage
    from paceline.runtime.engine.launch.hardware import read_hardware
    from paceline.workbench.quantize.llm_compressor.environment import default_folder
    from paceline.workbench.quantize.progress import TerminalProgress
    from paceline.workbench.quantize.run import Machine, QuantizeOptions, run_quantization

    this = read_hardware()
    release = this.vllm_release or INSTALLED
    verdict = judge_format(
        "weights", SCHEMES[scheme].format, hardware or this.hardware_class, release
    )
    if verdict.refusal and hardware is not None:
        raise click.UsageError(f"--scheme {scheme} --hardware {hardware}: {verdict.refusal}")
    if verdict.refusal:
        raise click.UsageError(
            f"--scheme {scheme}: {verdict.refusal}. For another machine, name it with --hardware"
        )
    try:
        options = QuantizeOptions(
            model=_find_model(model),
            scheme=scheme,
            out=out,
            calibration=calibration,
            num_samples=num_samples,
            max_tokens=max_tokens,
            group_size=group_size,
            seed=seed,
            environment=default_folder(os.environ) if backend == "llm-compressor" else None,
        )
        with TerminalProgress() as progress:
            document = run_quantization(
                options,
                Machine(this.hardware_class, this.available_memory_bytes),
                command=["paceline", *sys.argv[1:]],
                cautions=[verdict.caution] if verdict.caution else [],
                on_progress=progress,
                on_caution=lambda text: click.echo(f"paceline: {text}", err=True),
            )
    except WrongUsage as error:
        raise click.UsageError(str(error)) from None
    except QuantizeError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        then = "continues where it was" if backend == "own" else "begins anew"
        click.echo(f"paceline: interrupted; the same command {then}", err=True)
        sys.exit(_EXIT_INTERRUPTED)
    sizes = [sum(entry["bytes"] for entry in document[part]["files"].values()
                 if "bytes" in entry) for part in ("source", "output")]  # fmt: skip
    click.echo(
        f"{out}: {document['made_by']['method']}, {sizes[1] / 1e6:,.1f} MB instead of "
        f"{sizes[0] / 1e6:,.1f} MB, in {document['duration_s']:g} s"
    )


def _find_model(model: str) -> str:
    """Return the folder of MODEL. Raises WrongUsage for a name that cannot be fetched."""
    from paceline.foundation.named_models import NamedModelMissing, target_of
    from paceline.foundation.quantized.errors import WrongUsage

    try:
        model = target_of(model)
    except NamedModelMissing as missing:
        raise WrongUsage(str(missing)) from None
    if Path(model).exists() or model.count("/") != 1:
        return model
    from huggingface_hub import snapshot_download

    try:
        return str(snapshot_download(model))
    except Exception as error:
        raise WrongUsage(
            f"MODEL is {model}, which is neither a folder nor can be fetched: {error}"
        ) from error
