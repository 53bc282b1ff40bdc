"""The promises of every adapter that tinker-cookbook makes possible, under the real cookbook."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean

import pytest
from adapter_contract import AdapterContract
from contract_runs import EVOLVING, Job, Run, groups
from tinker_cookbook.rl import train
from tinker_host import Observer, TinkerHost, config

import evoprompt


class TestTinkerAdapter(AdapterContract):
    separates_baselines = False
    score = "`check_answer`: The share of words below five letters."

    @pytest.fixture(scope="class")
    @classmethod
    def host(cls) -> TinkerHost:
        return TinkerHost()

    def check_advantages(self, run: Run, size: int) -> None:
        """The cookbook subtracts the mean of a group, and divides by nothing."""
        compared = 0
        for batch, told in zip(run.batches, run.told, strict=True):
            for rows, start in zip(groups(batch, size), range(0, len(told), size), strict=True):
                rewards = [t.reward for t in told[start : start + size] if t.reward is not None]
                if len(rewards) < size:
                    continue
                expected = [reward - fmean(rewards) for reward in rewards]
                assert [row.advantage for row in rows] == pytest.approx(expected, abs=1e-5)
                compared += any(expected)
        assert compared

    def test_groups_hold_together_across_processes(self) -> None:
        """Groups that would be rolled out in other processes are refused before the first one."""
        job = Job(EVOLVING)
        given = config(self.folder, job, Observer(job))
        attachment = evoprompt.attach(given, EVOLVING.build())
        with ThreadPoolExecutor() as executor:
            train.set_rollout_executor(executor)
            try:
                with pytest.raises(evoprompt.EvopromptError, match="rollout_executor"):
                    asyncio.run(given.dataset_builder())
            finally:
                train.set_rollout_executor(None)
        attachment.detach()
