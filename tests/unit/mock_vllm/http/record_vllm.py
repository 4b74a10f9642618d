"""Record vLLM's answers to `recorded_requests` as test data:

    PYTHONPATH=tests python -m unit.mock_vllm.http.record_vllm http://127.0.0.1:8000 [NAME…]

With names, only the answers to these requests are recorded again.

The server must be vLLM 0.32 with the bundled pair and speculative decoding, so that the answers
include the refusals of min_p and logit_bias:

    vllm serve TARGET --served-model-name target --max-model-len 1024 --enforce-eager
        --speculative-config '{"method": "draft_model", "model": DRAFT,
                               "num_speculative_tokens": 2}'

`paceline.demo.target_path()` and `draft_path()` return TARGET and DRAFT.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection
from pathlib import Path

import httpx

from unit.mock_vllm.http.recorded_requests import ANSWERS, REFUSALS

_FOLDER = re.compile(r'"root":"[^"]*"')  # the folder of the model depends on the machine
DATA = Path(__file__).parent / "data"


def main(url: str, names: Collection[str]) -> None:
    path = DATA / "vllm-0.32.0.json"
    recorded = json.loads(path.read_text()) if names else {}
    with httpx.Client(base_url=url, timeout=120) as http:
        for request in (*ANSWERS, *REFUSALS):
            if names and request.name not in names:
                continue
            content = request.raw if request.body is None else json.dumps(request.body).encode()
            headers = {"content-type": request.content_type} if content is not None else {}
            answer = http.request(request.method, request.path, content=content, headers=headers)
            recorded[request.name] = {
                "status": answer.status_code,
                "headers": dict(answer.headers),
                "body": _FOLDER.sub('"root":"target"', answer.text),
            }
        metrics = http.get("/metrics")
    path.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")
    if names:
        return
    lines = [line for line in metrics.text.splitlines() if "vllm:" in line]
    (DATA / "vllm-0.32.0-metrics.txt").write_text(
        f"content-type: {metrics.headers['content-type']}\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
