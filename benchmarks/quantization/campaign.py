"""Carry out the steps of one model: make folders, load each alone, measure in turns, profile.

Each step appends records to the document and saves it, and leaves out what it already has.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.quantization.agreement import GateVerdict, ask_gate, find_disagreement
from benchmarks.quantization.engines import Engine, EngineError, running_engines
from benchmarks.quantization.making import make_folder, weights_bytes
from benchmarks.quantization.prompts import Pair
from benchmarks.quantization.summary import (
    choose_fastest,
    product_pair,
)
from benchmarks.quantization.variants import (
    CONTROL,
    UNQUANTIZED,
    Variant,
    choose_dtype,
    engine_arguments,
    plan_batches,
    speculating,
)
from paceline.runtime.engine.launch.hardware import Hardware, read_hardware

_MEMORY_FRACTION = 0.85
"""Of the available memory, for engines that are alive at once; the rest is for their caches and
for other programs. Chosen empirically."""
_WARM_UP_TOKENS = 8
_REFUSED_DTYPE = "bfloat16"
"""For formats that the gate refuses: most kernels are compiled for it, so that vLLM's reason is not
the dtype."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What determines the measurements; recorded with them."""

    models: tuple[str, ...]
    variants: tuple[str, ...]
    drafters: tuple[str, ...]
    draft_length: int
    rounds: int
    turn_prompts: int
    """Prompts that an engine answers in one turn, one after another."""
    num_tokens: int
    num_answers: int
    num_greedy: int
    """Prompts whose greedy answers are compared."""
    profiled_tokens: int
    seed: int
    compiles: bool
    """Whether the engines of turns, products and profiles compile the model, as `paceline serve`
    has them do. Those that are loaded alone never do."""
    only_loaded: tuple[str, ...]
    """Variants whose quality is measured, and not their speed."""


class Campaign:
    """The steps of one model. `save` writes the document."""

    def __init__(
        self,
        model: Path,
        draft: Path,
        settings: Settings,
        pairs: Sequence[Pair],
        calibration: Path,
        work: Path,
        document: dict[str, Any],
        save: Callable[[], None],
    ) -> None:
        self._model, self._draft, self._settings = model, draft, settings
        self._pairs, self._calibration = pairs, calibration
        self._work, self._document, self._save = work, document, save
        self._hardware: Hardware = read_hardware()

    def make(self, variants: Sequence[Variant]) -> None:
        """Quantize into one folder per scheme and backend."""
        done = {(one["scheme"], one["backend"]) for one in self._records("made")}
        for variant in variants:
            if variant.folder is None or (variant.scheme, variant.backend) in done:
                continue
            done.add((variant.scheme, variant.backend))
            self._show(f"paceline quantize: {variant.folder}")
            made = make_folder(variant, self._model, self._work / variant.folder, self._calibration)
            self._add("made", made)

    def load(self, variants: Sequence[Variant]) -> None:
        """Load each variant in stock vLLM alone: kernels, greedy answers, likelihoods."""
        done = {one["variant"] for one in self._records("loads")}
        refusals = {
            f"{one['scheme']}-{one['backend']}": one.get("refusal") for one in self._records("made")
        }
        for variant in variants:
            folder = self._folder(variant)
            if variant.name in done or not (folder / "config.json").is_file():
                continue
            gate = ask_gate(variant, folder, self._hardware)
            dtype = choose_dtype(variant, gate.kernel_dtypes, self._hardware)
            if gate.refusal:
                dtype = _REFUSED_DTYPE
            record = self._load(variant, folder, gate, dtype)
            record["disagreement"] = find_disagreement(
                variant, gate, record["outcome"], refusals.get(variant.folder)
            )
            self._show(f"{variant.name}: {record['disagreement'] or 'as the gate says'}")
            self._add("loads", record)

    def measure(self, variants: Sequence[Variant], kind: str, **noted: Any) -> None:
        """Turns of a few seconds of all engines that load; `kind` is `turns` or `products`.

        `noted` is recorded with the batches.
        """
        loads = {one["variant"]: one for one in self._records("loads")}
        timed = [one for one in variants if one.name not in self._settings.only_loaded]
        usable = [variant for variant in timed if self._can_run(variant, loads)]
        sizes = {
            variant.name: loads.get(variant.loaded_as, {}).get("memory_bytes", 0)
            for variant in usable
        }
        always = {CONTROL, *UNQUANTIZED} if kind == "turns" else {CONTROL, usable[0].name}
        available = int(_MEMORY_FRACTION * self._hardware.available_memory_bytes)
        batches = self._earlier_batches(kind)
        if not batches:
            names = [variant.name for variant in usable]
            batches = plan_batches(names, always, sizes, available)
            self._add("batches", {"kind": kind, "variants": batches, **noted})
        by_name = {variant.name: variant for variant in usable}
        for number, batch in enumerate(batches):
            self._measure_batch([by_name[name] for name in batch], loads, kind, number)

    def measure_products(self) -> None:
        """The fastest quantized variant and the baseline, each with and without drafts."""
        # More rounds could make another variant the fastest.
        pair = product_pair(self._records("batches")) or choose_fastest(self._records("turns"))
        if pair is None or pair[1] is None or not self._settings.drafters:
            return
        variants = speculating(pair[0], pair[1], self._settings.drafters)
        self.measure(variants, "products", pair=list(pair))

    def profile(self) -> None:
        """The operators of the baseline and of the fastest quantized variant."""
        fastest = choose_fastest(self._records("turns"))
        if fastest is None or not self._settings.profiled_tokens:
            return
        baseline, best = fastest
        done = {one["variant"] for one in (*self._records("profiles"), *self._failed("profile"))}
        variants = {one.name: one for one in speculating(baseline, best or baseline, ())}
        dtypes = {one["variant"]: one["dtype"] for one in self._records("loads")}
        for name in dict.fromkeys((baseline, best)):
            if name is None or name in done:
                continue
            self._show(f"profile of {name}")
            arguments = self._arguments(
                variants[name], dtypes[name], compiles=self._settings.compiles
            )
            try:
                answer = self._profile(name, arguments)
            except EngineError as error:
                self._add_failure("profile", 0, name, error)
            else:
                self._add("profiles", {"variant": name, **answer})

    def _profile(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        with running_engines({name: arguments}, self._work) as engines:
            engine, prompts = engines[name], self._prompts(1)
            engine.ask(op="generate", prompts=prompts, num_tokens=_WARM_UP_TOKENS)
            return engine.ask(
                op="profile", prompts=prompts, num_tokens=self._settings.profiled_tokens
            )

    def _load(
        self, variant: Variant, folder: Path, gate: GateVerdict, dtype: str
    ) -> dict[str, Any]:
        record: dict[str, Any] = {
            "variant": variant.name,
            "dtype": dtype,
            "gate": asdict(gate),
            "weights_bytes": weights_bytes(folder),
        }
        try:
            arguments = {variant.name: self._arguments(variant, dtype, compiles=False)}
            with running_engines(arguments, self._work) as engines:
                engine = engines[variant.name]
                record["outcome"] = engine.started
                prompts = self._prompts(self._settings.num_greedy)
                answered = engine.ask(
                    op="generate", prompts=prompts, num_tokens=self._settings.num_tokens
                )
                record["answers"] = [one["tokens"] for one in answered["requests"]]
                record["likelihoods"] = engine.ask(op="likelihoods", pairs=list(self._pairs))[
                    "rows"
                ]
                record["memory_bytes"] = engine.memory_bytes()
        except EngineError as error:
            record["outcome"] = {"error": str(error), "log": error.log}
        return record

    def _measure_batch(
        self,
        variants: Sequence[Variant],
        loads: Mapping[str, Mapping[str, Any]],
        kind: str,
        batch: int,
    ) -> None:
        failed = {one["variant"] for one in self._failed(kind) if one["batch"] == batch}
        variants = [variant for variant in variants if variant.name not in failed]
        while variants:
            try:
                self._measure_missing(variants, loads, kind, batch)
                return
            except EngineError as error:
                if error.engine not in {variant.name for variant in variants}:
                    raise
                self._add_failure(kind, batch, error.engine, error)
                variants = [one for one in variants if one.name != error.engine]

    def _measure_missing(
        self,
        variants: Sequence[Variant],
        loads: Mapping[str, Mapping[str, Any]],
        kind: str,
        batch: int,
    ) -> None:
        """The rounds that lack one of the variants. Raises EngineError."""
        done: dict[int, set[str]] = {}
        for turn in self._records(kind):
            if turn["batch"] == batch:
                done.setdefault(turn["round"], set()).add(turn["variant"])
        names = {variant.name for variant in variants}
        missing = [n for n in range(self._settings.rounds) if not names <= done.get(n, set())]
        if not missing:
            return
        arguments = {}
        for variant in variants:
            load = loads[variant.loaded_as]
            arguments[variant.name] = self._arguments(
                variant, load["dtype"], compiles=self._settings.compiles
            )
        self._show(f"{kind}, batch {batch}: starting {len(arguments)} engines")
        with running_engines(arguments, self._work) as engines:
            for name, engine in engines.items():
                start = {"kind": kind, "batch": batch, "variant": name, **engine.started}
                self._add("starts", start)
            for engine in engines.values():
                self._warm_up(engine)
            for number in missing:
                self._measure_round(engines, kind, batch, number)

    def _warm_up(self, engine: Engine) -> None:
        """Take a whole turn, so that steps that verify drafts occur in it.

        The first step with a number of tokens is slow, because it creates the kernels for it.
        """
        prompts = self._prompts(self._settings.turn_prompts)
        engine.ask(op="generate", prompts=prompts, num_tokens=self._settings.num_tokens)

    def _measure_round(
        self, engines: Mapping[str, Engine], kind: str, batch: int, number: int
    ) -> None:
        """One turn of each engine, in an order that every second round reverses."""
        draw = random.Random(f"{self._settings.seed} {batch} {number // 2}")
        order = draw.sample(list(engines), len(engines))
        prompts = self._prompts(self._settings.turn_prompts, first=number)
        turns = []
        for position, name in enumerate(order if number % 2 == 0 else reversed(order)):
            answer = engines[name].ask(
                op="generate", prompts=prompts, num_tokens=self._settings.num_tokens
            )
            requests = [
                {
                    **{k: v for k, v in one.items() if k != "tokens"},
                    "num_tokens": len(one["tokens"]),
                }
                for one in answer["requests"]
            ]
            turns.append(
                {"variant": name, "batch": batch, "round": number, "position": position,
                 "requests": requests}
            )  # fmt: skip
        for turn in turns:
            self._document[kind].append({"model": self._model.name, **turn})
        self._save()
        self._show(f"{kind}, batch {batch}: round {number + 1} of {self._settings.rounds}")

    def _prompts(self, number: int, first: int = 0) -> list[list[int]]:
        """`number` prompts of the round `first`; all pairs take part in turn."""
        places = range(first * number, (first + 1) * number)
        return [self._pairs[place % len(self._pairs)][0] for place in places]

    def _arguments(self, variant: Variant, dtype: str, *, compiles: bool) -> dict[str, Any]:
        return engine_arguments(
            variant,
            self._folder(variant),
            dtype,
            self._draft,
            self._settings.draft_length,
            compiles=compiles,
        )

    def _folder(self, variant: Variant) -> Path:
        return self._model if variant.folder is None else self._work / variant.folder

    def _can_run(self, variant: Variant, loads: Mapping[str, Mapping[str, Any]]) -> bool:
        load = loads.get(variant.loaded_as)
        return load is not None and "error" not in load["outcome"]

    def _earlier_batches(self, kind: str) -> list[list[str]]:
        found = [one["variants"] for one in self._records("batches") if one["kind"] == kind]
        return list(found[0]) if found else []

    def _records(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self._document[kind] if one["model"] == self._model.name]

    def _add(self, kind: str, record: Mapping[str, Any]) -> None:
        self._document[kind].append({"model": self._model.name, **record})
        self._save()

    def _failed(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self._records("failures") if one["kind"] == kind]

    def _add_failure(self, kind: str, batch: int, variant: str, error: EngineError) -> None:
        self._show(f"{kind}, batch {batch}: {variant} is left out: {error}")
        record = {"kind": kind, "batch": batch, "variant": variant, "error": str(error)}
        self._add("failures", {**record, "log": error.log})

    def _show(self, text: str) -> None:
        print(f"{self._model.name}: {text}", file=sys.stderr, flush=True)
