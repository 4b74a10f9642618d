"""The files that the pages assume the reader has, for commands that read them."""

from __future__ import annotations

from pathlib import Path

from documented_commands.pages import PROJECT, blocks_of

_PROMPTS = '{"messages": [{"role": "user", "content": "Why is the sky blue?"}], "max_tokens": 8}\n'
_FILES = {
    "mine.jsonl": _PROMPTS,
    "sharegpt.json": '[{"conversations": [{"from": "human", "value": "Why is the sky blue?"}]}]',
    "prompts.jsonl": _PROMPTS,
    "mooncake.jsonl": '{"timestamp": 0, "input_length": 64, "output_length": 8, "hash_ids": [1]}\n',
    "alerts.yaml": "groups:\n- name: g\n  rules:\n  - {alert: Down, expr: up == 0}\n",
    "dashboard.json": '{"panels": []}',
    "vllm.log": "INFO 11-23 09:00:00 [core.py:1] Starting\n",
    "two.yaml": "replicas:\n  - url: http://127.0.0.1:8100\n  - url: http://127.0.0.1:8101\n",
    "today.yaml": "engine: {draft: none}\n",
    "tomorrow.yaml": "engine: {draft: ngram}\n",
    "none.yaml": "engine: {draft: none}\n",
    "drafted.yaml": "engine: {draft: ngram}\n",
    "paceline.yaml": "server: {lame_duck_s: 0}\n",
}
MEASUREMENTS = frozenset({"run.json", "k0.json", "k4.json"})
"""Reports of earlier commands; a command that reads one is parsed only."""


def write_reader_files(folder: Path) -> None:
    """Write them all; the phases of a day are those that docs/bench.md shows.

    `src` is that of the repository, in whose root the reader is.
    """
    (folder / "src").symlink_to(PROJECT / "src")
    for name, text in _FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    page = (PROJECT / "docs" / "bench.md").read_text(encoding="utf-8")
    phases = [block.text for block in blocks_of(page) if block.text.startswith("phases:")]
    (folder / "day.yaml").write_text(phases[0], encoding="utf-8")
