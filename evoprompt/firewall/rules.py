"""The built-in rules, in the order in which they are asked."""

from __future__ import annotations

from evoprompt.firewall.characters import chat_control, hidden_character, lookalike
from evoprompt.firewall.core import Rule
from evoprompt.firewall.form import empty, truncated
from evoprompt.firewall.leaks import copied_question, leaked_answer
from evoprompt.firewall.markup import altered_tag, unbalanced
from evoprompt.firewall.meta_text import meta_talk, refusal
from evoprompt.firewall.protocol import (
    lost_placeholder,
    lost_tag,
    new_placeholder,
    over_prompt_budget,
    several,
    too_long,
)
from evoprompt.firewall.repeats import duplicate, repetitive
from evoprompt.firewall.wrapping import serialised


def default_rules() -> tuple[Rule, ...]:
    """Every built-in rule, plainest first: a refusal is called a refusal, not a lost tag."""
    return (
        hidden_character,
        empty,
        refusal,
        meta_talk,
        chat_control,
        lookalike,
        serialised,
        altered_tag,
        unbalanced,
        truncated,
        repetitive,
        several,
        lost_tag,
        lost_placeholder,
        new_placeholder,
        too_long,
        over_prompt_budget,
        leaked_answer,
        copied_question,
        duplicate,
    )
