"""Sentences from which instructions are composed, most of them without any merit.

An *idea* has a key and several wordings. ``demonstrations.py`` defines the effect of each idea on a
demonstrator; nothing here separates good ideas from bad ones, and a proposer can do so only by
trying or by reading failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from evoprompt_tiny.idle import IDLE

from evoprompt.proposers.bank import SentenceBank

PROTOCOL_SENTENCE = (
    "write a query inside <search> and </search> , the final answer inside <answer> and </answer> ."
)
"""The sentence every instruction keeps, because it names the tags."""

ABOUT_SEARCHING: Mapping[str, Sequence[str]] = {
    "one-fact": (
        "search for one fact at a time .",
        "ask for a single fact in every query .",
        "each search should look up only one fact .",
    ),
    "follow": (
        "use each result to write the next query .",
        "put the name you just found into the next query .",
    ),
    "continue": (
        "search again while the answer is missing .",
        "keep searching until the results contain the answer .",
    ),
    "decompose": (
        "break the question into smaller steps .",
        "split a long question into short ones .",
    ),
    "innermost": (
        "begin with the innermost part of the question .",
        "look up the last part of the question first .",
    ),
    "search-first": ("search before you answer .", "never answer without a search ."),
    "optional": ("you can use the search tool .", "a search tool is available ."),
    "once": ("search exactly once .", "use only one query ."),
    "whole": ("put the whole question into the query .", "search with all words of the question ."),
    "memory": ("answer from memory .", "rely on what you already know ."),
    "hurry": ("be as quick as possible .", "do not waste queries ."),
    "exhaust": ("search as often as you can .", "use up all of your queries ."),
    "stop": (
        "answer as soon as the results contain it .",
        "stop searching once you have the answer .",
    ),
}

ABOUT_ANSWERING: Mapping[str, Sequence[str]] = {
    "name-only": (
        "give just the name and nothing else .",
        "write only a name between the answer tags .",
    ),
    "sentence": ("answer in a full sentence .", "explain the answer in one sentence ."),
    "context": ("say what the answer is about .", "repeat the question in your answer ."),
    "close-tags": ("close every tag that you open .", "follow the tag format exactly ."),
    "loose-tags": ("do not bother with the tags .", "tags may be left out ."),
    "evidence": (
        "check the results before you answer .",
        "make sure that the results support the answer .",
    ),
    "copy": ("copy names exactly from the results .", "never change a name that you found ."),
    "guess": ("guess if you are not sure .", "any name from the results will do ."),
    "think-aloud": (
        "think inside <think> and </think> before each query .",
        "note what you need inside <think> and </think> first .",
    ),
}

WITHOUT_EFFECT: Mapping[str, Sequence[str]] = {
    **{
        idea: [text.lower().replace(".", " .") for text in wordings]
        for idea, wordings in IDLE.items()
    },
    "professor": ("you are a professor of history .", "you know a lot about the world ."),
    "librarian": ("you are a friendly librarian .", "act as a librarian ."),
    "world": ("the world has many cities and people .", "there are many rivers in the world ."),
    "films": ("films have directors and novels have authors .", "every film has a director ."),
    "cities": ("every city has a mayor .", "cities and countries have rivers ."),
    "companies": ("companies are founded by people .", "every company has a founder ."),
    "modern": ("the results are up to date .", "the results were written this year ."),
    "order": ("the results are sorted by relevance .", "the best result comes first ."),
    "three": ("every search returns three results .", "you will see three results at a time ."),
    "lower": ("all names are in lower case .", "names are single words ."),
}

REMEDIES: Mapping[str, Sequence[str]] = {
    "no search": ("search-first", "optional", "continue", "memory", "care", "librarian"),
    "single search": (
        "one-fact",
        "follow",
        "continue",
        "decompose",
        "innermost",
        "whole",
        "read-question",
        "plan",
        "understand",
        "logic",
    ),
    "answer not found": (
        "follow",
        "one-fact",
        "innermost",
        "copy",
        "whole",
        "exhaust",
        "detective",
        "focus",
    ),
    "evidence misread": ("evidence", "copy", "guess", "care", "order", "modern"),
    "malformed tags": ("close-tags", "rules", "language", "loose-tags", "english"),
    "out of turns": ("stop", "hurry", "once", "decompose", "calm"),
    "wordy answer": ("name-only", "answer-it", "sentence", "quiet", "lower", "polite"),
}
"""Ideas that a reader of the failure might try: good, bad and idle ideas by diagnosis."""

SEED_IDEAS = ("assistant", "answer-it", "optional")
"""Ideas of the instruction training starts from: the usual text that asks for nothing special."""

GOOD_IDEAS = (
    "one-fact",
    "follow",
    "continue",
    "innermost",
    "search-first",
    "name-only",
    "close-tags",
    "evidence",
)
"""Ideas of an instruction written with knowledge of the demonstrations, as a control."""

SENTENCES: Mapping[str, Sequence[str]] = MappingProxyType(
    {**ABOUT_SEARCHING, **ABOUT_ANSWERING, **WITHOUT_EFFECT}
)
"""Sentences of every idea."""


BANK = SentenceBank(sentences=SENTENCES, remedies=REMEDIES, fixed=(PROTOCOL_SENTENCE,))
"""For the proposers that work without an LLM."""
