"""The claims of docs/experiments/governor.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/governor.md"
NOT_MEASURED = {
    "setting": (
        "drafts of 8 tokens",
        "at temperature 0.8 and 1",
        "17 phases",
        "16 seeds",
        "8 seeds",
        "7B on one H200",
        "72B on eight H100",
        "64 texts each",
        "verification 20 % too expensive, drafts 20 % too cheap",
        "verification 20 % too cheap, drafts 20 % too expensive",
        "off by 5 %",
        "24 verdicts",
        "in steps of 30 ms or more",
        "1.00 of the oracle, 0.98",
        "1.04 on the CPU and 1.00",
        "1.5 points",
    ),
    "observed": (
        "32 requests of predictable text fell to 0.805 on a machine where 288 rows",
        "0.7 to 1 ms on",
        "drafting for 16 requests as 23 ms where it takes 5",
        "of which 90 % is accepted",
    ),
}
MACHINES = ("cpu-twin", "bundled-pair", "7b-h200", "72b-tp8-h100")
OLD_MACHINES = tuple(name for name in MACHINES if name != "bundled-pair")
BEFORE = "governor-recorded-drafts-broad-{}-2026-11-29.json"
NOW = "governor-recorded-drafts-broad-{}-2026-12-01.json"
ELSEWHERE = "governor-recorded-drafts-broad-measured-2026-11-30.json"
STARTS = "governor-recorded-drafts-starts-{}-2026-12-01.json"
_TITLES = {
    "cpu-twin": "the twin",
    "bundled-pair": "the bundled pair",
    "7b-h200": "7B",
    "72b-tp8-h100": "72B",
}
ROWS = (
    ("best single length", ""),
    ("SGLang's rule, with its defaults", "sglang-ema"),
    ("**`goodput`**", "goodput"),
    ("one length for all requests", "goodput:lengths"),
    ("drafts end early, widths per request", "goodput:early"),
    ("classes hidden", "goodput:no-classes"),
    ("no table of costs", "goodput:no-table"),
    ("every entry of the table off by 5 %", "goodput:cells5"),
    ("verification 20 % too expensive, drafts 20 % too cheap", "goodput:verify+20:draft-20"),
    ("verification 20 % too cheap, drafts 20 % too expensive", "goodput:verify-20:draft+20"),
    ("every verdict known beforehand", "clairvoyant"),
)
"""Head of the row, and the arm; "" for the best of the fixed lengths."""
_CELL = "{{{0}.all:.3f}} / {{{0}.mixed:.3f}} / {{{0}.worst:.3f}}"
_NAMES = ("cpu", "bundled", "small", "large")


class Score:
    """What an arm reaches of the oracle: in all phases, in mixed batches, in the worst phase."""

    def __init__(self, scores: Mapping[str, Any], arm: str) -> None:
        fixed = [name for name in scores if name.startswith("K=")]
        name = arm or max(fixed, key=lambda one: float(scores[one]["of_oracle"]))
        score = scores[name]
        self.all = score["of_oracle"]
        self.mixed = score["of_mixed"]
        self.worst = score["of_phases"][score["worst_phase"]]


def reached(
    read: ReadResult, name: str, machines: Sequence[str] = MACHINES
) -> tuple[Spread, Spread]:
    """What `goodput` reaches on the machines, in all phases and in the worst. `name` is that of a
    raw result, with a field for the machine."""
    scores = [Score(read(name.format(machine))["scores"], "goodput") for machine in machines]
    return Spread(score.all for score in scores), Spread(score.worst for score in scores)


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    before = [read(BEFORE.format(machine))["scores"] for machine in OLD_MACHINES]
    now = [read(NOW.format(machine))["scores"] for machine in MACHINES]
    yield _row("`goodput` before this version (8 seeds)", before, "goodput")
    for head, arm in ROWS:
        yield _row(head, now, arm)
    elsewhere, costs = read(ELSEWHERE)["scores"], read(ELSEWHERE)["costs"]
    plain_s, longer_s = costs["verify_s"][-1][:2]
    yield claim(
        "One more token for each of {num} requests makes a step {more:.0f} % longer",
        num=costs["sizes"][-1],
        more=100 * (longer_s / plain_s - 1),
    )
    for text, arm in (
        ("{} with early ends", "goodput"),
        ("{} with one length for all", "goodput:lengths"),
        ("{} at the best single length", ""),
        ("{} by SGLang's rule", "sglang-ema"),
    ):
        yield claim(text.format(_CELL.format("x")), x=Score(elsewhere, arm))
    for machine in MACHINES:
        start = Score(read(STARTS.format(machine))["scores"], "goodput")
        yield claim(f"{{x.all:.3f}} and {{x.worst:.3f}} on {_TITLES[machine]}", x=start)


def _row(head: str, scores: list[Mapping[str, Any]], arm: str) -> Claim:
    """`scores` are of all machines, or of all but the bundled pair."""
    cells = list(map(_CELL.format, _NAMES))
    names = list(_NAMES)
    if len(scores) < len(names):
        names.remove("bundled")
        cells[1] = "not run"
    found = (Score(one, arm) for one in scores)
    return claim(f"| {head} | {' | '.join(cells)} |", **dict(zip(names, found, strict=True)))
