"""The promises of every adapter, kept by the TRL adapter under the real TRL."""

from __future__ import annotations

import pytest
import torch
from adapter_contract import AdapterContract
from trl_host import TrlHost


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


class TestTrlAdapter(AdapterContract):
    @pytest.fixture
    def host(self) -> TrlHost:
        return TrlHost()
