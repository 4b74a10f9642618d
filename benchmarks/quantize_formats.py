"""Quality and speed of quantized folders in stock vLLM, beside the unquantized model.

    python benchmarks/quantization/formats.py --model TARGET --model TWIN

Each model is quantized in every scheme, calibrated on the held-out prompts of odd number with their
reference answers. Then one engine per variant runs in a process of its own, without Paceline's
plugin (`VLLM_PLUGINS=""`). All stay alive; in every round all variants answer the same prompts in
turn, one request at a time, in random order. Quality is the likelihood of the reference answers to
the prompts of even number, token by token.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tokenizers import Tokenizer

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline import demo
from paceline.bench.results.environment import describe_environment
from paceline.engine.launch.hardware import read_hardware
from paceline.quantize.calibration import tokenize

VARIANTS = ("bfloat16", "float32", "w8a8", "awq", "gptq", "fp8", "kv_fp8")
"""Served in bfloat16, except `float32`; `kv_fp8` is the unquantized model with an FP8 KV cache."""
CHILD = Path(__file__).with_name("engine_child.py")


class Engine:
    """The parent's side of one engine."""

    def __init__(self, arguments: dict[str, Any], log: Path) -> None:
        read_end, write_end = os.pipe()
        environment = {
            **os.environ,
            "VLLM_PLUGINS": "",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "TORCHDYNAMO_DISABLE": "1",
            "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))),
            "KMP_BLOCKTIME": "1",
        }
        library = read_hardware().openmp_library
        if library is not None:
            environment["LD_PRELOAD"] = str(library)
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, str(CHILD), str(write_end)],
                stdin=subprocess.PIPE, stdout=file, stderr=file, env=environment,
                pass_fds=(write_end,),
            )  # fmt: skip
        os.close(write_end)
        self._answers = os.fdopen(read_end)
        self._log = log
        self.kernels: dict[str, int] = self.ask(op="start", arguments=arguments)["kernels"]

    def ask(self, **request: Any) -> dict[str, Any]:
        """One exchange; RuntimeError with the engine's error."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        line = self._answers.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the engine ended"}
        if "error" in answer:
            raise RuntimeError(f"{answer['error']}\n{self._log.read_text()[-2000:]}")
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class _Template:
    """The tokenizer of a model, with its chat template."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        self._own = AutoTokenizer.from_pretrained(str(folder))
        self._fast = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        return self._own.apply_chat_template(conversation, **options)

    def encode(self, text: str, **options: Any) -> list[int]:
        return list(self._fast.encode(text, add_special_tokens=False).ids)


def write_calibration(items: list[dict[str, Any]], file: Path) -> None:
    """Write the prompts with their reference answers as chats."""
    lines = []
    for item in items:
        if "messages" in item:
            answer = {"role": "assistant", "content": item["reference"]}
            lines.append({"messages": [*item["messages"], answer]})
        else:
            lines.append({"prompt": f"{item['prompt']}\n{item['reference']}"})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def answer_pairs(items: list[dict[str, Any]], folder: Path) -> list[list[list[int]]]:
    """Token ids of each prompt and of its reference answer."""
    from paceline.workloads.prompts import Prompt

    template = _Template(folder)
    pairs = []
    for item in items:
        is_chat = "messages" in item
        prompt = Prompt(
            task=item["task"],
            messages=tuple(item["messages"]) if is_chat else None,
            text=None if is_chat else item["prompt"] + "\n",
            max_tokens=None,
        )
        answer = template.encode(item["reference"])
        if answer:
            pairs.append([tokenize(prompt, template)[-900:], answer[:512]])
    return pairs


@contextlib.contextmanager
def engines(folders: dict[str, Path], names: list[str], logs: Path) -> Iterator[dict[str, Engine]]:
    """One engine per variant."""
    started: dict[str, Engine] = {}
    try:
        for name in names:
            arguments = {
                "model": str(folders.get(name, folders["bfloat16"])),
                "dtype": "float32" if name == "float32" else "bfloat16",
                "enforce_eager": True,
                "max_model_len": 2048,
                "max_num_seqs": 8,
                "kv_cache_memory_bytes": 256 * 1024**2,
                "disable_log_stats": True,
            }
            if name == "kv_fp8":
                arguments["kv_cache_dtype"] = "fp8"
            started[name] = Engine(arguments, logs / f"{name}.log")
            print(f"  {name}: {started[name].kernels}", file=sys.stderr)
        yield started
    finally:
        for engine in started.values():
            engine.close()


def measure(
    model: Path, options: argparse.Namespace, work: Path, items: list[dict[str, Any]]
) -> dict[str, Any]:
    """Quantize one model, and measure all variants."""
    calibration = work / "calibration.jsonl"
    write_calibration(items[1::2], calibration)
    folders, made = {"bfloat16": model}, {}
    for scheme in ("w8a8", "awq", "gptq", "fp8"):
        if scheme not in options.variants:
            continue
        folders[scheme] = work / scheme
        command = ["quantize", str(model), "--scheme", scheme, "--out", str(folders[scheme])]
        if scheme in ("awq", "gptq"):
            command += ["--calibration", str(calibration)]
        subprocess.run(
            [sys.executable, "-c", "from paceline.cli import main; main()", *command], check=True
        )
        made[scheme] = json.loads((folders[scheme] / "paceline-provenance.json").read_text())
    pairs = answer_pairs(items[0::2], model)[: options.num_answers]
    prompts = [prompt for prompt, _ in pairs[: options.num_prompts]]
    seconds: dict[str, list[list[float]]] = {name: [] for name in options.variants}
    with engines(folders, options.variants, work) as running:
        quality = {
            name: e.ask(op="likelihoods", pairs=pairs)["rows"] for name, e in running.items()
        }
        for engine in running.values():
            engine.ask(op="speed", prompts=prompts[:1], num_tokens=16)
        draw = random.Random(options.seed)
        for _ in range(options.rounds):
            for name in draw.sample(options.variants, len(options.variants)):
                answer = running[name].ask(
                    op="speed", prompts=prompts, num_tokens=options.num_tokens
                )
                seconds[name].append(answer["seconds"])
        kernels = {name: engine.kernels for name, engine in running.items()}
    return {
        "model": model.name,
        "duration_s": {name: document["duration_s"] for name, document in made.items()},
        "weights_bytes": {
            name: sum(path.stat().st_size for path in folder.glob("*.safetensors"))
            for name, folder in folders.items()
        },
        "kernels": kernels,
        "quality": quality,
        "seconds": seconds,
        "summary": {
            name: summarize(quality[name], quality["bfloat16"], seconds[name],
                            seconds["bfloat16"], options.num_tokens)
            for name in options.variants
        },
    }  # fmt: skip


def summarize(
    quality: list[dict[str, Any]],
    base_quality: list[dict[str, Any]],
    seconds: list[list[float]],
    base_seconds: list[list[float]],
    num_tokens: int,
) -> dict[str, float]:
    """Perplexity, its change, and tokens per second with the ratio to the base in each round."""
    tokens = sum(row["tokens"] for row in quality)
    nats, base = (sum(row["nats"] for row in rows) / tokens for rows in (quality, base_quality))
    ratios = [sum(ours) / sum(mine) for mine, ours in zip(seconds, base_seconds, strict=True)]
    rates = [num_tokens * len(one) / sum(one) for one in seconds]
    return {
        "perplexity": math.exp(nats),
        "perplexity_ratio": math.exp(nats - base),
        "first_choice": sum(row["first"] for row in quality) / tokens,
        "tokens_per_s": statistics.median(rates),
        "speed_ratio": statistics.median(ratios),
        "speed_ratio_min": min(ratios),
        "speed_ratio_max": max(ratios),
    }


def main() -> None:
    """Measure and write the raw result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, action="append", default=[])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--num-prompts", type=int, default=4)
    parser.add_argument("--num-tokens", type=int, default=96)
    parser.add_argument("--num-answers", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--json", type=Path, default=Path("benchmarks/results/quantization-formats.json.gz")
    )
    add_allow_dirty(parser)
    options = parser.parse_args()
    result = ResultFile(options.json, allow_dirty=options.allow_dirty)
    items = json.loads(demo.heldout_path().read_text())
    models = []
    for model in options.model or [demo.target_path()]:
        print(f"{model}:", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="paceline-") as work:
            models.append(measure(model, options, Path(work), items))
        for name, row in models[-1]["summary"].items():
            print(f"  {name}: {row}", file=sys.stderr)
        result.write(
            {
                "what": __doc__.splitlines()[0] if __doc__ else "",
                "environment": asdict(describe_environment(sys.argv)),
                "options": {k: v for k, v in vars(options).items() if k not in ("json", "model")},
                "models": models,
            }
        )


if __name__ == "__main__":
    main()
