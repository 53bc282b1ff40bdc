"""The built-in rules, in the order in which they are asked."""

from __future__ import annotations

from evoprompt.firewall.core import Rule
from evoprompt.firewall.form import chat_control, empty, serialised, truncated, unbalanced
from evoprompt.firewall.leaks import copied_question, leaked_answer
from evoprompt.firewall.protocol import (
    lost_placeholder,
    lost_tag,
    new_placeholder,
    over_prompt_budget,
    too_long,
)
from evoprompt.firewall.repeats import duplicate, repetitive
from evoprompt.firewall.talk import meta_talk, refusal


def default_rules() -> tuple[Rule, ...]:
    """Every built-in rule, plainest first: a refusal is called a refusal, not a lost tag."""
    return (
        empty,
        refusal,
        meta_talk,
        chat_control,
        serialised,
        unbalanced,
        truncated,
        repetitive,
        lost_tag,
        lost_placeholder,
        new_placeholder,
        too_long,
        over_prompt_budget,
        leaked_answer,
        copied_question,
        duplicate,
    )
