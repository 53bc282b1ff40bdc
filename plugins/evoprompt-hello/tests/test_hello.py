from evoprompt_hello import Hello

from evoprompt.plugins import plugins
from evoprompt.testing import ProposerSuite
from evoprompt.testing.samples import request


class TestHello(ProposerSuite):
    def build(self) -> Hello:
        return Hello(["Hello.", "Twice."])

    def test_says_every_sentence_once(self) -> None:
        proposed = Hello(["Hello."]).propose(request())
        assert [proposal.text.endswith("Hello.") for proposal in proposed] == [True]


def test_is_installed_under_its_name() -> None:
    found = plugins().find("proposer", "hello")
    assert found.source.distribution == "evoprompt-hello"
