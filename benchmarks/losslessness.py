"""Check that output with the governor is the target's own: 1,000 greedy prompts, sampled verdicts.

    python benchmarks/losslessness.py --json benchmarks/results/losslessness.json.gz

**Greedy.** Two engines with a draft length that changes in every step (0 to 8, with stretches at 0,
after which the draft model backfills its KV cache), one with the bundled draft model and one with
n-gram lookup, against one without speculation. All their outputs are teacher-forced too: each token
is the target's argmax, a near-tie (logged), or wrong.

**Sampled.** For each drafter of `losslessness.verdicts.arms`, rounds of greedy and sampled requests
in one batch. Every verdict and every sampled token is tested (`losslessness.verdicts.evidence`).
Then acceptance thresholds 5 % too low and too high are injected, and the verdicts that find them
are counted. The power table gives the smallest bias found with probability 0.95, by simulation
from the recorded ratios, with as many verdicts as the test suite draws and as here.

Finished parts are kept in `NAME.progress.jsonl` until the result is written; the same command
continues after the last of them. The exit code is 1 if any output is not lossless or an injected
bias is not found.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from losslessness.checks import teacher_force
from losslessness.engine_host import EngineHost
from losslessness.verdicts.arms import ARMS, short_prompts, start_arm
from losslessness.verdicts.evidence import Verdicts
from losslessness.verdicts.power import smallest_bias_found
from losslessness.verdicts.rounds import FOUND_ABOVE, draw_round, draw_until_found

from benchmarks.results_file import ResultFile, add_allow_dirty, sibling
from paceline.demo import draft_path, heldout_path, target_path
from paceline.foundation.results.environment import describe_environment
from paceline.workbench.audit.statistics.greedy import NEAR_TIE_NATS

MAX_DRAFT_LENGTH = 8
PROMPTS_PER_PART = 100
BIASES = (0.95, 1.05)
FAULTS = "losslessness.verdicts.faults"
GREEDY_DRAFTERS: dict[str, dict[str, Any]] = {
    "draft model": {"method": "draft_model", "model": str(draft_path())},
    "n-gram": {"method": "ngram", "prompt_lookup_min": 1, "prompt_lookup_max": 3},
}


class Progress:
    """The finished parts of a run, one JSON line each, in a file that survives an interruption.

    The first line holds the settings and the commit; a run with others refuses to continue.
    """

    def __init__(self, path: Path | None, *, settings: dict[str, Any]) -> None:
        self._path = path
        self._parts: dict[str, Any] = {}
        self._began_s = time.monotonic()
        if path is None:
            return
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(settings) + "\n")
            return
        first, *parts = path.read_text().splitlines()
        if json.loads(first) != settings:
            sys.exit(
                f"Error: {path} is of a run with {first}, this is one with {settings}. Delete it."
            )
        for line in parts:
            self._parts |= json.loads(line)
        print(f"continuing after {len(self._parts)} finished parts", file=sys.stderr)

    def get(self, name: str) -> Any:
        """The part's record, or None if it has yet to run."""
        return self._parts.get(name)

    def keep(self, name: str, record: Any, summary: str) -> None:
        """Store a finished part and print one line about it."""
        self._parts[name] = record
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps({name: record}) + "\n")
        print(f"{time.monotonic() - self._began_s:5.0f} s  {name}: {summary}", file=sys.stderr)

    def remove(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def main() -> int:
    arguments = _parse_arguments()
    result = (
        ResultFile(arguments.json, allow_dirty=arguments.allow_dirty) if arguments.json else None
    )
    environment = asdict(describe_environment(sys.argv))
    settings = {
        "prompts": arguments.prompts.name,
        "num_prompts": arguments.num_prompts,
        "max_tokens": arguments.max_tokens,
        "num_verdicts": arguments.num_verdicts,
    }
    progress = Progress(
        None if arguments.json is None else sibling(arguments.json, ".progress.jsonl"),
        settings={**settings, "commit": environment["commit"]},
    )
    greedy = run_greedy(arguments, progress)
    sampled = {name: run_sampled(name, arguments, progress) for name in ARMS}
    document = {
        "schema_version": 2,
        "kind": "losslessness",
        "environment": environment,
        "settings": {
            **settings,
            "near_tie_nats": NEAR_TIE_NATS["float32"],
            "found_above": FOUND_ABOVE,
        },
        "greedy": greedy,
        "power": {name: found.pop("power") for name, found in sampled.items()},
        "injected": {name: found.pop("injected") for name, found in sampled.items()},
        "sampled": [{"drafter": name, **found} for name, found in sampled.items()],
    }
    print(json.dumps({key: document[key] for key in ("greedy", "power", "injected")}, indent=2))
    is_lossless = all(found["num_wrong_tokens"] == 0 for found in greedy.values()) and all(
        found["e_value"] < FOUND_ABOVE for found in sampled.values()
    )
    all_found = all(bias["is_found"] for found in document["injected"].values() for bias in found)
    print(f"lossless: {is_lossless}; injected biases found: {all_found}")
    if result is not None:
        result.write(document)
        progress.remove()
        print(f"wrote {result.path}")
    return 0 if is_lossless and all_found else 1


def run_greedy(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Greedy outputs of both drafters in parts of 100 prompts; totals by drafter."""
    texts = _read_prompts(arguments.prompts, arguments.num_prompts)
    starts = range(0, len(texts), PROMPTS_PER_PART)
    llm = {
        "model": str(target_path()),
        "dtype": "float32",
        "max_model_len": 1024,
        "max_num_seqs": 32,
    }
    with ExitStack() as stack:
        engines: dict[str, EngineHost] = {}
        for start in starts:
            if progress.get(f"greedy {start}") is not None:
                continue
            if not engines:
                engines["none"] = stack.enter_context(EngineHost(llm))
                for name, settings in GREEDY_DRAFTERS.items():
                    speculative = {**settings, "num_speculative_tokens": MAX_DRAFT_LENGTH}
                    engines[name] = stack.enter_context(
                        EngineHost(
                            {**llm, "speculative_config": speculative},
                            policy={"policy": "fixed"},
                            fault="losslessness.faults:wander",
                        )
                    )
            record = greedy_part(
                engines, texts[start : start + PROMPTS_PER_PART], max_tokens=arguments.max_tokens
            )
            same = {name: found["num_identical"] for name, found in record.items()}
            progress.keep(f"greedy {start}", record, f"identical outputs: {same}")
    return {
        name: _greedy_totals([progress.get(f"greedy {start}")[name] for start in starts])
        for name in GREEDY_DRAFTERS
    }


def greedy_part(
    engines: dict[str, EngineHost], texts: Sequence[str], *, max_tokens: int
) -> dict[str, Any]:
    """Compare the outputs of the speculating engines with those of engine `none`."""
    plain = engines["none"]
    prompts = [ids[-(1000 - max_tokens) :] for ids in plain.tokenize(texts)]

    def outputs_of(engine: EngineHost) -> list[list[int]]:
        answers = engine.generate(prompts, temperature=0.0, max_tokens=max_tokens)
        return [answer["token_ids"] for answer in answers]

    def judge(outputs: list[list[int]]) -> Any:
        return teacher_force(plain, prompts, outputs, near_tie_nats=NEAR_TIE_NATS["float32"])

    expected = outputs_of(plain)
    record: dict[str, Any] = {}
    for name in GREEDY_DRAFTERS:
        outputs = outputs_of(engines[name])
        state, verdicts = engines[name].state(), judge(outputs)
        different = [i for i, output in enumerate(outputs) if output != expected[i]]
        record[name] = {
            "num_prompts": len(prompts),
            "num_tokens": sum(map(len, outputs)),
            "num_identical": len(prompts) - len(different),
            "num_different_without_near_tie": sum(not verdicts[i].near_ties for i in different),
            "num_wrong_tokens": sum(len(verdict.wrong) for verdict in verdicts),
            "deviations": [
                asdict(one) for verdict in verdicts for one in (*verdict.near_ties, *verdict.wrong)
            ],
            "steps_total": state["steps_total"],
            "draft_length_changes_total": state["draft_length_changes_total"],
            "accepted_tokens_total": state["accepted_tokens_total"],
        }
    return record


def _greedy_totals(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums over parts; the governor's own totals count from the start of its last engine."""
    sums = {key: sum(part[key] for part in parts) for key in parts[0] if key.startswith("num_")}
    deviations = [one for part in parts for one in part["deviations"]]
    return {
        **sums,
        "num_near_ties": len(deviations) - sums["num_wrong_tokens"],
        "near_tie_share_of_tokens": (len(deviations) - sums["num_wrong_tokens"])
        / sums["num_tokens"],
        "deviations": deviations,
        **{key: parts[-1][key] for key in parts[-1] if key.endswith("_total")},
    }


def run_sampled(name: str, arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Verdicts of one drafter, its power table, and the injected biases."""
    verdicts = Verdicts()
    with ExitStack() as stack:
        engines: list[EngineHost] = []

        def engine(seed: int) -> EngineHost:
            if not engines:
                engines.append(stack.enter_context(start_arm(name, seed=seed)))
            return engines[0]

        for number in _numbers():
            part = f"{name}, round {number}"
            record = progress.get(part)
            if record is None:
                host = engine(number)
                record = draw_round(host, short_prompts(host), number=number)
                record["requests"] = []
                progress.keep(part, record, f"{len(record['verdicts'])} verdicts")
            verdicts.add(record)
            if len(verdicts.ratios) >= arguments.num_verdicts:
                break
        injected = []
        for factor in BIASES:
            part = f"{name}, thresholds times {factor}"
            if progress.get(part) is None:
                found = inject(engine(0), factor, num_verdicts=arguments.num_verdicts)
                progress.keep(part, found, f"found after {found['num_verdicts']} verdicts")
            injected.append(progress.get(part))
    part = f"{name}, power"
    if progress.get(part) is None:
        sizes = {"suite": ARMS[name].num_verdicts, "benchmark": len(verdicts.ratios)}
        table = [
            {"verdicts": size, "of": of, "too_low": low, "too_high": high}
            for of, size in sizes.items()
            for low, high in [smallest_bias_found(verdicts.ratios[:size], found_above=FOUND_ABOVE)]
        ]
        progress.keep(part, table, "done")
    evidence = verdicts.evidence()
    return {
        "e_value": evidence.e_value,
        "power": progress.get(part),
        "injected": injected,
        "evidence": asdict(evidence),
        "positions": verdicts.positions,
        "ratios": [float(f"{ratio:.5g}") for ratio in verdicts.ratios],
        "accepted": [int(accepted) for accepted in verdicts.accepted],
        "uniforms": {
            name: [round(value, 4) for value in values]
            for name, values in verdicts.uniforms.items()
        },
    }


def inject(engine: EngineHost, factor: float, *, num_verdicts: int) -> dict[str, Any]:
    """Draw with biased thresholds until the bias is found."""
    engine.call(f"{FAULTS}:scale_thresholds", factor)
    verdicts = draw_until_found(engine, short_prompts(engine), num_verdicts=num_verdicts)
    e_value = verdicts.evidence().e_value
    engine.call(f"{FAULTS}:restore")
    return {
        "threshold_factor": factor,
        "is_found": e_value > FOUND_ABOVE,
        "e_value": e_value,
        "num_verdicts": len(verdicts.ratios),
    }


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


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
    parser.add_argument("--max-tokens", type=int, default=64, help="of a greedy output")
    parser.add_argument("--num-verdicts", type=int, default=20_000, help="per drafter, at least")
    parser.add_argument("--json", type=Path, help="write the result here")
    add_allow_dirty(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
