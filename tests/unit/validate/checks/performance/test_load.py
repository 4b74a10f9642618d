"""The load of the tier: how many requests, for which prompts, within which limits."""

from __future__ import annotations

from dataclasses import replace

import aiohttp
import pytest
from yarl import URL

from paceline.foundation.workloads import Prompt
from paceline.operations.validate.checks import Deployment
from paceline.operations.validate.checks.performance.load import observe_load
from paceline.operations.validate.target.target import Addresses, Target
from paceline.testing.mock_vllm import MockVllm
from unit.validate.deployments import MOCKS, TIER

TINY = replace(TIER, num_requests=6, concurrency=2, max_tokens=3)


@pytest.mark.parametrize("prompts", [(), (Prompt("mine", None, "my own text", None),)])
async def test_the_load_has_the_tiers_size_and_the_given_prompts(
    prompts: tuple[Prompt, ...],
) -> None:
    async with MockVllm(MOCKS["gateway"]) as mock, aiohttp.ClientSession() as session:
        target = Target(session, Addresses(URL(mock.url)))
        await target.identify(None)
        deployment = Deployment(target, TINY, prompts)
        load = await observe_load(deployment)
        assert await observe_load(deployment) is load  # one run serves all checks
        async with session.get(f"{mock.url}/mock_vllm/requests") as answer:
            sent = (await answer.json())["records"]
    assert [record.output_tokens for record in load.records] == [3] * 6
    assert len(sent) == 2 * 2 + 6  # two warm-up requests per slot
    num_texts = len({one["prompt_hash"] for one in sent})
    assert num_texts == (1 if prompts else len(sent))
