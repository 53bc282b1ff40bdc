"""No rule takes time that grows with the square of a text: the longest ones would take hours."""

from __future__ import annotations

from itertools import cycle

import pytest

from evoprompt.screening import LONGEST, Rule, ScreeningContext, default_rules
from evoprompt.types import Proposal

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
CONTEXT = ScreeningContext(
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


@pytest.mark.parametrize("rule", default_rules(), ids=lambda rule: rule.__name__)
def test_the_longest_text_of_any_piece_is_judged(rule: Rule) -> None:
    for piece, (before, after) in zip(PIECES, cycle(AROUND), strict=False):
        room = LONGEST - len(before) - len(after)
        text = before + (piece * (room // len(piece) + 1))[:room] + after
        assert isinstance(rule(Proposal.of(text), CONTEXT), str | None)
