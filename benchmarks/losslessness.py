"""Check on 1,000 prompts that output with the governor equals output without speculation.

    python benchmarks/losslessness.py --json benchmarks/results/losslessness.json

Two engines run the bundled pair, one after the other. The first is AdaptiveScheduler with a draft
length that changes in every step: 0 to 8, with stretches at 0, after which the draft model
backfills its KV cache, and replay scoring in every tenth step. The second is vLLM without
speculation. If more prompts are wanted than are held out, prefixes of these are added. Greedy
outputs are compared with each other and teacher-forced through the engine without speculation;
sampled outputs (temperature 0.7 and 1, top-p 0.9, top-k 20) go through the G-test of
`tests/losslessness`. The exit code is 1 if any output is not lossless.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from losslessness.checks import (
    SamplingCase,
    by_prefix,
    compare,
    draw,
    raw_logprobs,
    teacher_force,
)
from losslessness.engine_host import EngineHost
from losslessness.greedy import NEAR_TIE_NATS

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.bench.results.environment import describe_environment
from paceline.demo import draft_path, heldout_path, target_path

MAX_DRAFT_LENGTH = 8
PASSES = 1e-3


def main() -> int:
    arguments = _parse_arguments()
    result = (
        ResultFile(arguments.json, allow_dirty=arguments.allow_dirty) if arguments.json else None
    )
    prompts_text = _read_prompts(arguments.prompts, arguments.num_prompts)
    llm = {
        "model": str(arguments.model),
        "dtype": arguments.dtype,
        "max_model_len": 1024,
        "max_num_seqs": 32,
    }
    speculative = {
        "method": "draft_model",
        "model": str(arguments.draft),
        "num_speculative_tokens": MAX_DRAFT_LENGTH,
        "draft_sample_method": arguments.draft_sample_method,
    }
    greedy = {"temperature": 0.0, "max_tokens": arguments.max_tokens}
    samplings = [SamplingCase(temperature) for temperature in (0.7, 1.0)]

    with EngineHost(
        {**llm, "speculative_config": speculative},
        policy={"policy": "fixed"},
        fault="losslessness.faults:wander",
    ) as governed:
        prompts = [ids[-(1000 - arguments.max_tokens) :] for ids in governed.tokenize(prompts_text)]
        answers = governed.generate(prompts, **greedy)
        with_governor = [answer["token_ids"] for answer in answers]
        after_greedy = governed.state()
        sampled_prompt = [token for ids in prompts for token in ids][:132]
        drawn = [
            draw(governed, sampled_prompt, sampling, num_samples=arguments.num_samples)
            for sampling in samplings
        ]
        state = governed.state()
    with EngineHost({**llm, "speculative_config": None}) as plain:
        without = [answer["token_ids"] for answer in plain.generate(prompts, **greedy)]
        near_tie_nats = NEAR_TIE_NATS[arguments.dtype]
        verdicts = teacher_force(plain, prompts, with_governor, near_tie_nats=near_tie_nats)
        plain_verdicts = teacher_force(plain, prompts, without, near_tie_nats=near_tie_nats)
        tests = [
            compare(
                outputs,
                raw_logprobs(
                    plain,
                    sampled_prompt,
                    list(by_prefix(outputs, first_position=1, min_samples=60)),
                ),
                sampling,
            )
            for outputs, sampling in zip(drawn, samplings, strict=True)
        ]

    num_same = sum(a == b for a, b in zip(with_governor, without, strict=True))
    wrong = [d for verdict in verdicts for d in verdict.wrong]
    pairs = zip(with_governor, without, verdicts, plain_verdicts, strict=True)
    unexplained = [
        index
        for index, (a, b, verdict, plain_verdict) in enumerate(pairs)
        if a != b and not verdict.near_ties and not plain_verdict.near_ties
    ]
    report: dict[str, Any] = {
        "schema_version": 1,
        "environment": asdict(describe_environment(sys.argv)),
        "model": Path(arguments.model).name,
        "dtype": arguments.dtype,
        "greedy": {
            "num_prompts": len(prompts),
            "num_tokens": sum(verdict.num_tokens for verdict in verdicts),
            "num_identical_outputs": num_same,
            "num_near_ties": sum(len(verdict.near_ties) for verdict in verdicts),
            "near_tie_nats": near_tie_nats,
            "largest_gap_nats": max(
                (d.gap_nats for v in verdicts for d in (*v.near_ties, *v.wrong)), default=0.0
            ),
            "num_wrong_tokens": len(wrong),
            **{
                name: after_greedy[name]
                for name in (
                    "steps_total",
                    "draft_length_changes_total",
                    "accepted_tokens_total",
                    "hindsight_drafts_total",
                )
            },
            "outputs_parted_without_a_near_tie": unexplained,
        },
        "sampled": [
            {
                "temperature": sampling.temperature,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
                "p_value": test.p_value,
                "g_statistic": test.statistic,
                "num_degrees": test.num_degrees,
                "num_samples": test.num_samples,
                "num_outside_support": test.num_outside,
            }
            for sampling, test in zip(samplings, tests, strict=True)
        ],
        "governor": state,
    }
    print(json.dumps({k: report[k] for k in ("greedy", "sampled")}, indent=2))
    if result:
        result.path.parent.mkdir(parents=True, exist_ok=True)
        result.write(report)
    return 1 if wrong or unexplained or any(test.p_value < PASSES for test in tests) else 0


def _read_prompts(path: Path, num_prompts: int) -> list[str]:
    """Prompts from a JSON list of texts, or of the entries that `paceline bench` reads.

    If there are too few, each is repeated without the last fifth of its lines, again and again.
    """
    entries = json.loads(path.read_text(encoding="utf-8"))
    texts = [_text_of(entry) for entry in entries]
    random.Random(0).shuffle(texts)  # the file is ordered by task
    for text in texts:
        if len(texts) >= num_prompts:
            break
        lines = text.splitlines(keepends=True)
        if len(lines) > 1:
            texts.append("".join(lines[: max(len(lines) * 4 // 5, 1)]))
    if len(texts) < num_prompts:
        raise SystemExit(f"{path} gives {len(texts)} prompts; --num-prompts is {num_prompts}")
    return texts[:num_prompts]


def _text_of(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    if entry.get("prompt") is not None:
        return str(entry["prompt"])
    turns = "".join(
        f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in entry["messages"]
    )
    return f"{turns}<|im_start|>assistant\n"


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prompts", type=Path, default=heldout_path(), help="JSON list of prompts")
    parser.add_argument("--num-prompts", type=int, default=1000)
    parser.add_argument("--num-samples", type=int, default=3000, help="sampled outputs per setting")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--model", type=Path, default=target_path())
    parser.add_argument("--draft", type=Path, default=draft_path())
    parser.add_argument("--dtype", choices=sorted(NEAR_TIE_NATS), default="float32")
    parser.add_argument(
        "--draft-sample-method", choices=["greedy", "probabilistic"], default="probabilistic"
    )
    parser.add_argument("--json", type=Path, help="write the whole report here")
    add_allow_dirty(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
