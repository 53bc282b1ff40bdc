from __future__ import annotations

import pytest
from evoprompt_search_qa.policies.choose import kind_of, open_policy
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY

from evoprompt.errors import InputError


def test_the_tiny_policy_is_the_shipped_one_or_that_of_a_folder() -> None:
    for spec in ("tiny", f"tiny:{SHIPPED_POLICY}"):
        policy = open_policy(spec, base_url=None, device="cpu")
        assert policy.name == str(SHIPPED_POLICY)


def test_an_endpoint_keeps_colons_in_the_name_of_its_model() -> None:
    policy = open_policy("openai:qwen:7b", base_url="http://127.0.0.1:1/v1", device="cpu")
    assert policy.name == "qwen:7b"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("tinny", "did you mean 'tiny'"),
        ("openai", "required: the name of a model, as in openai:NAME"),
        ("transformers:", "required: the name of a model"),
        ("tiny:", "required: a folder after the colon"),
    ],
)
def test_what_is_no_policy_is_refused(spec: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        kind_of(spec)


def test_an_endpoint_needs_an_address() -> None:
    with pytest.raises(InputError, match="--base-url"):
        open_policy("openai:m", base_url=None, device="cpu")
