"""Records vLLM's answers to `shapes` as test data:

    python -m tests.unit.mock_vllm.record_vllm http://127.0.0.1:8000

The server is vLLM 0.32 with the bundled pair, which drafts, so that the refusals of min_p and
logit_bias are among the answers:

    vllm serve TARGET --served-model-name target --max-model-len 1024 --enforce-eager
        --speculative-config '{"method": "draft_model", "model": DRAFT,
                               "num_speculative_tokens": 2}'

where `paceline.demo` knows TARGET and DRAFT.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import httpx

if __package__:
    from unit.mock_vllm.shapes import ANSWERS, REFUSALS
else:  # run as a file
    from shapes import ANSWERS, REFUSALS  # type: ignore[import-not-found,no-redef]

_FOLDER = re.compile(r'"root":"[^"]*"')  # where the model lay is of no interest
DATA = Path(__file__).parent / "data"


def main(url: str) -> None:
    recorded = {}
    with httpx.Client(base_url=url, timeout=120) as http:
        for shape in (*ANSWERS, *REFUSALS):
            content = shape.raw if shape.body is None else json.dumps(shape.body).encode()
            headers = {"content-type": shape.content_type} if content is not None else {}
            answer = http.request(shape.method, shape.path, content=content, headers=headers)
            recorded[shape.name] = {
                "status": answer.status_code,
                "headers": dict(answer.headers),
                "body": _FOLDER.sub('"root":"target"', answer.text),
            }
        metrics = http.get("/metrics")
    path = DATA / "vllm-0.32.0.json"
    path.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")
    lines = [line for line in metrics.text.splitlines() if "vllm:" in line]
    (DATA / "vllm-0.32.0-metrics.txt").write_text(
        f"content-type: {metrics.headers['content-type']}\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1])
