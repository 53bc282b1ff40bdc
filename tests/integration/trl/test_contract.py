"""The promises of every adapter, kept by the TRL adapter under the real TRL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from adapter_contract import AdapterContract
from contract_runs import Run
from trl_host import TrlHost


class TestTrlAdapter(AdapterContract):
    score = "`short_words`: TRL's first reward; "

    @pytest.fixture(scope="class")
    @classmethod
    def host(cls) -> Iterator[TrlHost]:
        found = TrlHost()
        yield found
        found.close()

    def check_rewards(self, run: Run) -> None:
        """Feedback is that of the same row, whichever process it was in."""
        super().check_rewards(run)
        told = [one for step in run.told for one in step if one.feedback]
        assert told
        assert all(one.feedback == f"asked {one.question.id}" for one in told)
