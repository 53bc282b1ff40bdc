"""Every rule takes time linear in the text: four times the text, at most eight times the time."""

from __future__ import annotations

import re
import time
from itertools import cycle

import pytest

from evoprompt.firewall import FirewallContext, Rule, default_rules
from evoprompt.types import Proposal

SMALL = 1_024
TIMES = 4
SLACK = 0.01  # seconds; below it nothing is told apart from noise

PIECES = [
    *"aA1.!?,;:-_*#~='\"`<>()[]{}/\\|$%&@ \n\t",
    "\n\n ",
    " \n#",
    ". ",
    "a ",
    "a. ",
    "a\n",
    "<a",
    "<a ",
    "<a>",
    "</a>",
    "<a>b",
    "< ",
    "<answer ",
    "<answer>x ",
    "x</answer>",
    "&lt;",
    "``",
    "```",
    "~~~",
    "`a",
    "{{",
    "{a",
    "{{ ",
    "${a",
    "$a",
    "%(a",
    "<<a ",
    "[a b ",
    "[insert ",
    "<your ",
    "\\a{",
    "\\aa",
    "{}",
    '{"a": ',
    '["',
    "sure ",
    "new ",
    "new instruction ",
    "this prompt ",
    "this prompt aly ",
    "here is ",
    "i have made ",
    "ich kann ",
    "user: ",
    "# response ",
    "[[ ## ",
    "<|a",
    "- a\n",
    "1. ",
    "\u3002",
    "\u6539\u8fdb",
    "\u0301",
    "\u0315\u0300",
    "a\u0301",
    "\u200d",
    "\ufdfa",
    "\u0430",
    "a\u0430",
    "\u201c",
    "\u201e",
    "\u00ab",
    "\u00bb",
    "\U0001f600",
    "\n---",
    "such as ",
    "never [a b] ",
    "let me know ",
    "i am sorry ",
    "alternatively\n",
    "\nor\n",
    "- a: b\n",
    "a. B:",
    "<a> <b",
    "who wrote the book of the year ",
    "<answer> x ",
    "x </answer> ",
    "<answer> and ",
    "for example: <answer> x\n",
    "<answer>\nx\n",
    "`<answer> x` ",
    "i have kept ",
    "here is a ",
    "the prompt ",
    "(",
    "[begin ",
    "> ",
    "---\n",
]
AROUND = [("", ""), ("Search. ", " end"), ("<answer>", "\n(x")]
QUESTION = "Who wrote the book of the year that the king of the island of Halden read?"
CONTEXT = FirewallContext(
    parents=[
        "Think first. Write <answer>x</answer>.",
        "Write <answer> and </answer> for {question}.",
    ],
    required=["<answer>", "</answer>"],
    living=["a " * 500, "Write <answer> and </answer>."],
    rejected=["a. " * 500, "b " * 500],
    questions=[QUESTION] * 5,
    answers=["Halden", "aaaa", "a b c d"],
    control_tokens=["<pad>", "aaab"],
    max_tokens=1_000_000,
    max_prompt_tokens=2_000_000,
)


def _text(piece: str, size: int) -> str:
    return (piece * (size // len(piece) + 1))[:size]


def _seconds(rule: Rule, proposal: Proposal, tries: int) -> float:
    least = float("inf")
    for _ in range(tries):
        begun = time.thread_time()
        rule(proposal, CONTEXT)
        least = min(least, time.thread_time() - begun)
    return least


@pytest.mark.parametrize("rule", default_rules(), ids=lambda rule: rule.__name__)
def test_four_times_the_text_takes_at_most_eight_times_the_time(rule: Rule) -> None:
    slow = []
    for piece, (before, after) in zip(PIECES, cycle(AROUND), strict=False):
        small = Proposal.of(before + _text(piece, SMALL) + after)
        large = Proposal.of(before + _text(piece, TIMES * SMALL) + after)
        # More tries when it looks slow: another process may have taken the time.
        for tries in (1, 3, 10):
            spent = _seconds(rule, large, tries)
            if spent <= SLACK:
                break
            limit = 2 * TIMES * _seconds(rule, small, tries) + SLACK
            if spent <= limit:
                break
        else:
            slow.append((piece, spent, limit))
    assert slow == []


def test_the_measure_finds_a_quadratic_rule() -> None:
    def quadratic(proposal: Proposal, _context: FirewallContext) -> str | None:
        return "found" if re.search("a+b", proposal.text) else None  # tries every beginning

    # Four times twice over, so that a machine that is busy in between does not hide it.
    small, large = (Proposal.of("a" * size) for size in (SMALL, TIMES**2 * SMALL))
    assert _seconds(quadratic, large, 2) > 2 * TIMES**2 * _seconds(quadratic, small, 5)
