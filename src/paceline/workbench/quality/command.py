"""`paceline quality`: the options, the comparison, the report and the exit code.

What runs the models is imported only when the command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import (
    AT_LEAST_1,
    INPUT_FILE,
    JSON_FILE,
    SEED,
    NamedChoice,
    refuse_unwritable_file,
)
from paceline.foundation.compatibility.hardware_classes import HARDWARE_CLASSES
from paceline.foundation.compatibility.vllm_releases import INSTALLED
from paceline.foundation.models.options import (
    DEFAULT_TEMPERATURES,
    DEVICE,
    EXIT_INTERRUPTED,
    MAX_DRAFT_LENGTH,
    MAX_TOKENS,
    PROMPTS,
    TEMPERATURE,
    refuse_without_torch,
)

if TYPE_CHECKING:
    from paceline.workbench.quality.candidate import CandidateReport
    from paceline.workbench.quality.options import CompareOptions

NOT_MADE = 4
"""Exit code of a comparison that could not be made; 1 is the verdict `rejected`."""


class NotCompared(click.ClickException):
    """There is no verdict, or its report could not be written. The message says why."""

    exit_code = NOT_MADE


_FRACTION = FiniteFloat(min=0, max=1, min_open=True)
_EXAMPLES = """\b
Examples:
  paceline quality ./my-model ./my-model-int8 ./my-model-awq --prompts mine.jsonl
      Compare two quantized folders with the original on your prompts
  paceline quality ./my-model ./my-model-int8 --prompts mine.jsonl --draft ./my-draft --json q.json
      Measure the draft's acceptance again, too
  paceline quality ./my-model ./my-model-int8 --prompts mine.jsonl --checker check.py
      Score answers with score(prompt, answer) of check.py, from 0 to 1
  paceline quality ./my-model ./my-model --prompts mine.jsonl --dtype float16
      The same weights in other arithmetic

Prompts are as for paceline bench run; "reference" is the right answer.
"""


@click.command(
    name="quality",
    help=(
        "Compare quantized or otherwise changed models with the unquantized one, BASELINE, on your "
        "prompts, and decide whether they may replace it. Models are folders or Hugging Face "
        "names; `smollm2` and `bundled` are Paceline's own.\n\n"
        "Exit codes: 0 all approved, 1 one rejected, 2 wrong usage, 3 one undecided, 4 not "
        "compared, 130 interrupted."
    ),
    epilog=_EXAMPLES,
)
@click.argument("baseline")
@click.argument("candidates", nargs=-1, required=True, metavar="CANDIDATE...")
@PROMPTS
@click.option("--draft", help="Draft model or EAGLE-3 head to count the acceptance of.")
@click.option(
    "--checker", "checker_file", type=INPUT_FILE, metavar="FILE.py",
    help="Python file with score(prompt, answer), which is run on every prompt.  [default: equal "
    "to the prompt's reference]",
)  # fmt: skip
@click.option(
    "--dtype", type=NamedChoice(["bfloat16", "float16", "float32"]), default="bfloat16",
    show_default=True, help="Arithmetic of the candidates. The baseline is computed in float32.",
)  # fmt: skip
@click.option(
    "--kv-cache-dtype", "kv_cache_format", type=NamedChoice(["auto", "fp8"]), default="auto",
    show_default=True, help="Format of the KV cache that the candidates are served with.",
)  # fmt: skip
@click.option(
    "--hardware", type=NamedChoice(list(HARDWARE_CLASSES)),
    help="Where the candidates will be served.  [default: this machine]",
)  # fmt: skip
@click.option(
    "--max-divergence-ratio", "divergence_ratio", type=FiniteFloat(min=1), default=2.0,
    show_default=True, metavar="RATIO",
    help="Largest divergence, relative to that of plain rounding to the same format.",
)  # fmt: skip
@click.option(
    "--max-perplexity-increase", "perplexity_increase", type=_FRACTION, default=0.02,
    show_default=True, metavar="FRACTION", help="Largest relative increase.",
)  # fmt: skip
@click.option(
    "--max-score-loss", "score_loss", type=_FRACTION, default=0.02, show_default=True,
    metavar="FRACTION", help="Largest loss of the mean task score.",
)  # fmt: skip
@TEMPERATURE
@MAX_TOKENS
@MAX_DRAFT_LENGTH
@click.option("--limit", type=AT_LEAST_1, help="Use the first prompts only.")
@DEVICE
@SEED
@click.option(
    "--work", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Keep answers and scores here; the repeated command continues with them.",
)  # fmt: skip
@JSON_FILE
def quality(**options: Any) -> None:
    """Parse, compare, show and write; the exit code is the worst verdict."""
    refuse_unwritable_file("--json", options["json_file"])
    try:
        refuse_without_torch("paceline quality")
        exit_code = _compare(**options)
    except click.UsageError:
        raise
    except click.ClickException as error:
        raise NotCompared(error.message) from error
    except KeyboardInterrupt:  # while the libraries are imported; click would exit with 1
        exit_code = EXIT_INTERRUPTED
    except Exception as error:  # Python's exit code 1 would be a verdict.
        from paceline.workbench.quality.output.failure import describe_failure

        raise NotCompared(describe_failure(error)) from error
    sys.exit(exit_code)


def _compare(
    candidates: tuple[str, ...], work: Path | None, json_file: str | None, **settings: Any
) -> int:
    """The comparison and its report; returns the exit code."""
    from paceline.foundation.answer_quality.values import QualityError
    from paceline.foundation.models.interruption import stop_on_signals
    from paceline.foundation.models.progress import draft_progress
    from paceline.foundation.models.values import DraftError, Interrupted
    from paceline.foundation.results.environment import describe_environment
    from paceline.foundation.results.files import write_document
    from paceline.workbench.quality.baseline import Baseline
    from paceline.workbench.quality.candidate import check_candidate
    from paceline.workbench.quality.output.document import render_document
    from paceline.workbench.quality.output.lines import render_lines
    from paceline.workbench.quality.stored_scores import WorkFolder

    try:
        environment = asdict(describe_environment(sys.argv))
        options = _read_options(settings)
        folders = [_find(candidate) for candidate in candidates]
        with _work_folder(work) as path, stop_on_signals() as stop, draft_progress() as progress:
            baseline = Baseline(options, WorkFolder(path), progress, stop)
            baseline.measure()
            reports = [check_candidate(baseline, folder) for folder in folders]
            document = render_document(baseline, reports, environment)
        for line in render_lines(reports, document["prompts"]["num_prompts"]):
            click.echo(line)
        if json_file is not None:
            write_document(Path(json_file), document)
    except (DraftError, QualityError, OSError) as error:
        raise NotCompared(str(error)) from error
    except (Interrupted, KeyboardInterrupt):
        kept = "" if work is None else f" Repeat the command to continue with what is in {work}."
        click.echo(f"Interrupted.{kept}", err=True)
        return EXIT_INTERRUPTED
    return _exit_code(reports)


def _exit_code(reports: Sequence[CandidateReport]) -> int:
    from paceline.foundation.answer_quality.decisions import EXIT_CODES, Verdict

    found = {report.decision.verdict for report in reports}
    worst = next(one for one in (Verdict.REJECTED, Verdict.UNDECIDED, Verdict.APPROVED)
                 if one in found)  # fmt: skip
    return EXIT_CODES[worst]


def _read_options(settings: dict[str, Any]) -> CompareOptions:
    """The options as values. Raises DraftError or QualityError."""
    import torch

    from paceline.foundation.answer_quality.checkers import check_reference, load_checker
    from paceline.foundation.answer_quality.decisions import Limits
    from paceline.foundation.models.models import choose_device, find_draft_folder
    from paceline.foundation.models.values import Sampling
    from paceline.runtime.engine.launch.hardware import read_hardware
    from paceline.workbench.quality.integrity import Target
    from paceline.workbench.quality.options import CompareOptions

    this = read_hardware()
    checker, draft = settings["checker_file"], settings["draft"]
    return CompareOptions(
        baseline=_find(settings["baseline"]),
        draft=None if draft is None else find_draft_folder(draft),
        prompts_file=Path(settings["prompts_file"]),
        target=Target(
            settings["hardware"] or this.hardware_class,
            this.vllm_release or INSTALLED,
            settings["kv_cache_format"],
        ),
        dtype=getattr(torch, settings["dtype"]),
        device=choose_device(settings["device"]),
        samplings=tuple(
            Sampling(one) for one in dict.fromkeys(settings["temperatures"] or DEFAULT_TEMPERATURES)
        ),
        max_tokens=settings["max_tokens"],
        max_draft_length=settings["max_draft_length"],
        limit=settings["limit"],
        seed=settings["seed"],
        checker=check_reference if checker is None else load_checker(Path(checker)),
        limits=Limits(
            settings["divergence_ratio"], settings["perplexity_increase"], settings["score_loss"]
        ),
    )


def _find(model: str) -> Path:
    from paceline.foundation.models.models import find_folder

    return find_folder(model)


@contextlib.contextmanager
def _work_folder(work: Path | None) -> Iterator[Path]:
    if work is not None:
        yield work
        return
    with tempfile.TemporaryDirectory(prefix="paceline-quality-") as scratch:
        yield Path(scratch)
