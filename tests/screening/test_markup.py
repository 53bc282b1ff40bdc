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
        "Write <a>word</a>. For example: <a> Lima <a>. After </a> comes nothing.",
        "Write <a>word</a>. For example: <a> Lima",
        "Write <a>word</a>. So: </a> Lima <a>.",
        "Write <a>x</a> and <b>y</b>. A run:\n<a> Lima </a>\n<b> Peru </a>",
        "Write <a>x</a>. For instance: <a> Lima </a> and then <a> Peru",
        "Write <a>x</a>. Example:\n<a> Lima\n<a> Peru </a>",
        "Write <a>x</a>. The reply is `<a> Lima`.",
        "Finish with <a> and </a> and <a> again.",
        "Put it between </a> and <a>.",
        "<a><b> are opened, </a></b> are closed.",
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
        "Two tags: <a> for queries and <b> for results. Close them: </a>, </b>.",
        "For example, <a> comes before </b>, and </a> before <b>.",
        "Example: <a> I know one: Lima. The other is second.</a> After </a> stop.",
        "1. <a> about it.\n2. <b> for it.\nClose </a> and </b>.",
        "Compare it with what <a> says; where they differ, trust <a>. Nothing after </a>.",
        "Put no text between </a> and <a>.",
        "\uba3c\uc800 <a>\ub85c \uac80\uc0c9\ud558\uc138\uc694. <b>x</b>, </a>.",
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


def test_tags_of_another_protocol_are_found() -> None:
    assert altered_tag(Proposal.of("Write <query>x</query>."), PARENT) is not None
    assert (
        altered_tag(Proposal.of("Write <query>x</query> and <answer>y</answer>."), PARENT) is None
    )
    assert altered_tag(Proposal.of("Write <query>x</query>."), ALONE) is None


def test_a_spelling_that_the_parent_uses_may_be_used() -> None:
    context = FirewallContext(parents=['Write <answer> or <answer lang="en">.'])
    assert altered_tag(Proposal.of('Write <answer lang="en">.'), context) is None
