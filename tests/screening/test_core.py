from evoprompt.firewall import Finding, Firewall, FirewallContext, default_rules
from evoprompt.types import Proposal


def shouting(proposal: Proposal, _context: FirewallContext) -> str | None:
    return "it shouts" if proposal.text.isupper() else None


def anything(_proposal: Proposal, _context: FirewallContext) -> str | None:
    return "nothing is good enough"


def test_the_first_rule_that_finds_something_names_the_rejection() -> None:
    firewall = Firewall([shouting, anything])
    assert firewall.check(Proposal.of("STOP"), FirewallContext()) == Finding(
        "shouting", "it shouts"
    )
    assert firewall.check(Proposal.of("stop"), FirewallContext()) == Finding(
        "anything", "nothing is good enough"
    )


def test_without_rules_everything_passes() -> None:
    assert Firewall([]).check(Proposal.of(""), FirewallContext()) is None


def test_an_ordinary_proposal_passes_all_rules() -> None:
    found = Firewall(default_rules()).check(
        Proposal.of("Search for one fact at a time."), FirewallContext()
    )
    assert found is None


def test_rules_have_distinct_names() -> None:
    names = [rule.__name__ for rule in default_rules()]
    assert len(set(names)) == len(names)
