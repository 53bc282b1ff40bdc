import pytest

from evoprompt.firewall import FirewallContext
from evoprompt.firewall.markup import altered_tag, unbalanced
from evoprompt.types import Proposal

ALONE = FirewallContext()


@pytest.mark.parametrize(
    "text",
    [
        "Write between <search> and <search>.",
        "Search first.</search>",
        "Search: <a>one <b>two</a></b>.",
        "Search: <a>one. Then <a>two</a>.",
        "Finish with </answer",
        "Reply with ```code",
        "Use `search.",
    ],
)
def test_unbalanced_markup_is_found(text: str) -> None:
    assert unbalanced(Proposal.of(text), ALONE) is not None


@pytest.mark.parametrize(
    "text",
    [
        "Write <search> before a query.",
        "Close what is open with </search>, and wait for <output>.",
        "Write <search> query </search>.",
        "Read the <information> block.",
        "Read what stands in `<information>` first.",
        "Use <search> and </search> tags.",
        "If 3 < n and n > 2, stop.",
        "Close </search> what <search> opened.",
        "Write <a> and </a>, and nothing after </a>. Never open a second <a>.",
        "<a> and <b>, then </a> and </b>.",
        "Write <a><b>word</b></a> and no other <b> than that.",
    ],
)
def test_balanced_and_merely_mentioned_tags_pass(text: str) -> None:
    assert unbalanced(Proposal.of(text), ALONE) is None


def test_a_tag_that_the_parent_leaves_open_may_stay_open() -> None:
    context = FirewallContext(parents=["Start with <think> and go on."])
    assert unbalanced(Proposal.of("First write <think> and reason."), context) is None


PARENT = FirewallContext(parents=["Write <answer> and </answer>, or <Note> and </Note>."])


@pytest.mark.parametrize(
    "text",
    [
        '<answer type="short">Lima</answer>',
        "< answer >Lima</ answer >",
        "<Answer>Lima</Answer>",
        "<answer/>",
        "<answer and",
        "<\\/answer>",
        "\uff1canswer\uff1e",
        "\u2039answer\u203a",
        "<\u0430nswer>Lima</\u0430nswer>",
        "&lt;answer&gt;",
    ],
)
def test_another_spelling_of_a_tag_is_found(text: str) -> None:
    assert altered_tag(Proposal.of(f"<answer> {text} </answer>"), PARENT) is not None


@pytest.mark.parametrize("text", ["<answer>Lima</answer>", "<Note>", "<b>Lima</b>", "a < answer"])
def test_the_tag_itself_and_other_tags_pass(text: str) -> None:
    assert altered_tag(Proposal.of(text), PARENT) is None


def test_a_spelling_that_the_parent_uses_may_be_used() -> None:
    context = FirewallContext(parents=['Write <answer> or <answer lang="en">.'])
    assert altered_tag(Proposal.of('Write <answer lang="en">.'), context) is None
