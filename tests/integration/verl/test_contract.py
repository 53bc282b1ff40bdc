"""The promises of every adapter, kept by the veRL adapter under veRL's own trainer code."""

from __future__ import annotations

import pytest
from adapter_contract import AdapterContract
from local_verl import LocalHost

# veRL and what it imports warn about themselves; only our own warnings are errors here.
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("error:::evoprompt_verl"),
]


class TestVerlAdapter(AdapterContract):
    separates_baselines = False
    score = ""  # the local host rewards without a function that could be read

    @pytest.fixture(scope="class")
    @classmethod
    def host(cls) -> LocalHost:
        return LocalHost()
