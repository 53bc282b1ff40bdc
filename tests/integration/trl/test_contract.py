"""The promises of every adapter, kept by the TRL adapter under the real TRL."""

from __future__ import annotations

import pytest
import torch

pytest.register_assert_rewrite("adapter_contract")

from adapter_contract import AdapterContract  # noqa: E402
from trl_host import TrlHost  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


class TestTrlAdapter(AdapterContract):
    @pytest.fixture
    def host(self) -> TrlHost:
        return TrlHost()
