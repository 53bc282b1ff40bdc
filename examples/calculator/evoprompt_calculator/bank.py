"""Sentences from which instructions are composed, and diagnoses of failed episodes.

Nothing here separates good sentences from bad ones, and a proposer can do so only by trying or by
reading failures. ``demonstrations.py`` defines the effect of each on a demonstrator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evoprompt_tiny.attempt import Attempt
from evoprompt_tiny.idle import IDLE
from evoprompt_tiny.template import call_phrases
from evoprompt_tiny.writing import WRITING, WRITING_REMEDIES

from evoprompt.agents import ToolCall
from evoprompt.proposers.bank import SentenceBank
from evoprompt.types import Trajectory
from evoprompt_calculator.problems import UNITS

OPENING, CLOSING = call_phrases("calculate", "expression")
"""Text before and after the expression of a call."""

ABOUT_CALCULATING: Mapping[str, Sequence[str]] = {
    "one-step": ("Work out one step at a time.", "Calculate a single step in every call."),
    "follow": (
        "Use each result in the next call.",
        "Put the last result into the next call.",
    ),
    "every-step": ("Use the tool for each step.", "Call the calculator for every step."),
    "in-order": ("Follow the order of the story.", "Start with what happens first."),
    "split": ("Break the problem into smaller steps.", "Split a long problem into short ones."),
    "tool-first": ("Calculate before you answer.", "Never answer without a calculation."),
    "optional": ("You can use the calculator.", "A calculator is available."),
    "once": ("Use the calculator exactly once.", "Make only one call."),
    "whole": ("Put the whole story into one expression.", "Calculate with all numbers at once."),
    "head": ("Calculate in your head.", "Rely on your own skill with numbers."),
    "hurry": ("Be as quick as possible.", "Do not waste calls."),
    "exhaust": ("Calculate as often as you can.", "Use up all of your calls."),
    "stop": (
        "Answer as soon as you have the result.",
        "Stop once you know the answer.",
    ),
    "units": ("Check the units.", "Turn dozens, pairs and packs into pieces first."),
    "ignore-units": ("Do not worry about units.", "Units do not matter."),
}

ABOUT_WRITING: Mapping[str, Sequence[str]] = {
    **WRITING,
    "check": ("Check each number against the story.", "Make sure that you use the right numbers."),
    "copy": ("Copy numbers exactly.", "Never change a number that you read."),
    "guess": ("Guess if you are not sure.", "A rough estimate will do."),
}

SENTENCES: Mapping[str, Sequence[str]] = {
    **ABOUT_CALCULATING,
    **ABOUT_WRITING,
    "mathematician": ("You are a professor of mathematics.", "You know a lot about numbers."),
    "whole-numbers": ("All answers are whole numbers.", "There are no fractions in the answer."),
    "people": ("The story is about people.", "People in the story own things."),
    **IDLE,
}
"""Sentences of every idea."""

REMEDIES: Mapping[str, Sequence[str]] = {
    "no calculation": ("tool-first", "optional", "every-step", "head", "care", "mathematician"),
    "single calculation": (
        *("one-step", "follow", "every-step", "in-order", "split", "whole"),
        *("read-question", "plan", "understand", "logic"),
    ),
    "unit ignored": ("units", "ignore-units", "read-question", "people", "name-things"),
    "wrong number": ("check", "copy", "guess", "in-order", "care", "whole-numbers", "focus"),
    **WRITING_REMEDIES,
}
"""Ideas that a reader of the failure might try: good, bad and idle ideas by diagnosis."""

SEED_IDEAS = ("assistant", "answer-it", "optional")
"""Ideas of the instruction training starts from: the usual text that asks for nothing special."""

GOOD_IDEAS = (
    *("one-step", "follow", "every-step", "in-order", "tool-first", "units"),
    *("number-only", "valid-call", "check"),
)
"""Ideas of an instruction written with knowledge of the demonstrations, as a control."""

BANK = SentenceBank(sentences=SENTENCES, remedies=REMEDIES)

ONE_CALL = SentenceBank(
    sentences={
        "call": (
            "Always answer with a call of the calculator.",
            "Call the calculator, and write nothing else.",
            "Use the calculator for every question.",
        ),
        "whole": (
            "Put the whole story into one expression, with brackets around what happens first, "
            "such as (12 + 3) * 4.",
            "Write one expression with all numbers of the story, such as (20 - 6) / 2.",
            "Never stop after the first event of the story, as in (7 + 8) * 3.",
        ),
        "units": (
            "A dozen is * 12, pairs are * 2, packs of ten are * 10.",
            "Turn dozens, pairs and packs of ten into pieces: times 12, 2 and 10.",
        ),
        "share": (
            "Equal piles and shares are divisions.",
            "Where friends share, divide by their number.",
        ),
        "think": ("Think step by step before you answer.",),
        "one": ("One operation is enough.",),
        "care": ("Be careful with numbers.", "Check each number against the story."),
    },
    remedies={
        "no call": ("call", "think", "care"),
        "one operation": ("whole", "one", "care"),
        "unit ignored": ("units", "care"),
        "wrong number": ("share", "whole", "care"),
    },
)
"""Sentences for a language model that calls once; none has the tags of a call."""


def diagnose_call(call: ToolCall | None, story: str) -> str:
    """Return the diagnosis of a failed call, by the names of the remedies in :data:`ONE_CALL`.

    >>> diagnose_call(None, "Mia has 3 pens. Mia loses 2 of them. How many?")
    'no call'
    """
    if call is None or call.fault:
        return "no call"
    expression = str(call.arguments.get("expression"))
    events = len(re.findall(r"\d+", story)) - 1
    unit = next((unit for unit in UNITS if f" {unit} " in story), None)
    if len(re.findall(r"[-+*/]", expression)) < events:
        return "one operation"
    is_ignored = unit is not None and str(UNITS[unit]) not in re.findall(r"\d+", expression)
    return "unit ignored" if is_ignored else "wrong number"


def diagnose(trajectory: Trajectory) -> list[str]:
    """Return the diagnoses of a trajectory, by the names of the remedies; empty if there are none.

    >>> from evoprompt.types import Assignment, Candidate, Question, Turn
    >>> question = Question("q", "Mia has 3 pens. Mia loses 2 of them. How many?", ("1",))
    >>> assignment = Assignment("a", question, Candidate("c", {"i": ""}), 1, "g")
    >>> diagnose(Trajectory(assignment, 0.0, turns=(Turn("3"),)))
    ['no calculation']
    """
    if not trajectory.turns:
        return []
    attempt, story = Attempt(trajectory, CLOSING), trajectory.question.text
    calls, wrong = attempt.calls, attempt.wrong
    unit = next((unit for unit in UNITS if f" {unit} " in story), None)
    ignored = unit is not None and f"*{UNITS[unit]}" not in attempt.call_text
    single = len(calls) == 1 and len(re.findall(r"\d+", story)) > 2
    diagnoses = {
        "no calculation": wrong and not calls,
        "single calculation": wrong and single,
        "unit ignored": wrong and bool(calls) and ignored,
        "wrong number": wrong and bool(calls) and not single and not ignored,
        **attempt.form_diagnoses,
    }
    return [name for name, applies in diagnoses.items() if applies]
