"""The promises of every adapter, kept by the TRL adapter under the real TRL."""

from __future__ import annotations

import pytest
from adapter_contract import AdapterContract
from trl_host import TrlHost


class TestTrlAdapter(AdapterContract):
    score = "`short_words`: TRL's first reward; "

    @pytest.fixture(scope="class")
    @classmethod
    def host(cls) -> TrlHost:
        return TrlHost()
