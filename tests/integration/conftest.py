"""Before any test imports the contract: its failures should say what was compared."""

import pytest

pytest.register_assert_rewrite("adapter_contract")
