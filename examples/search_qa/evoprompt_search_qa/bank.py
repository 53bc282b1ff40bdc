"""The sentences from which instructions are composed, most of them without any merit.

An *idea* has a key and several wordings. What each idea does to a demonstrator is said in
``demonstrations.py``; nothing here tells good from bad, and neither can a proposer but by trying
or by reading failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from evoprompt.bank import SentenceBank

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
    "search-first": (
        "search before you answer .",
        "never answer without a search .",
    ),
    "optional": (
        "you can use the search tool .",
        "a search tool is available .",
    ),
    "once": (
        "search exactly once .",
        "use only one query .",
    ),
    "whole": (
        "put the whole question into the query .",
        "search with all words of the question .",
    ),
    "memory": (
        "answer from memory .",
        "rely on what you already know .",
    ),
    "hurry": (
        "be as quick as possible .",
        "do not waste queries .",
    ),
    "exhaust": (
        "search as often as you can .",
        "use up all of your queries .",
    ),
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
    "sentence": (
        "answer in a full sentence .",
        "explain the answer in one sentence .",
    ),
    "context": (
        "say what the answer is about .",
        "repeat the question in your answer .",
    ),
    "close-tags": (
        "close every tag that you open .",
        "follow the tag format exactly .",
    ),
    "loose-tags": (
        "do not bother with the tags .",
        "tags may be left out .",
    ),
    "evidence": (
        "check the results before you answer .",
        "make sure that the results support the answer .",
    ),
    "copy": (
        "copy names exactly from the results .",
        "never change a name that you found .",
    ),
    "guess": (
        "guess if you are not sure .",
        "any name from the results will do .",
    ),
    "think-aloud": (
        "think inside <think> and </think> before each query .",
        "note what you need inside <think> and </think> first .",
    ),
}

WITHOUT_EFFECT: Mapping[str, Sequence[str]] = {
    "assistant": ("you are a helpful assistant .", "you are an expert assistant ."),
    "answer-it": ("answer the question .", "give an answer to the question ."),
    "polite": ("be polite .", "use a friendly tone ."),
    "calm": ("take a deep breath .", "stay calm and take your time ."),
    "care": ("think carefully .", "work with great care ."),
    "important": ("this is very important .", "a lot depends on this ."),
    "reward": ("good work will be rewarded .", "you will get a prize for this ."),
    "today": ("the user needs this today .", "the user is waiting for you ."),
    "honest": ("be honest with the user .", "always tell the truth ."),
    "safe": ("be safe and responsible .", "respect the privacy of the user ."),
    "english": ("write in plain english .", "use simple words ."),
    "professor": ("you are a professor of history .", "you know a lot about the world ."),
    "detective": ("work like a detective .", "act as a private detective ."),
    "librarian": ("you are a friendly librarian .", "act as a librarian ."),
    "proud": ("make the user proud .", "do your very best ."),
    "test": ("this is a test .", "treat this as an exam ."),
    "world": ("the world has many cities and people .", "there are many rivers in the world ."),
    "films": ("films have directors and novels have authors .", "every film has a director ."),
    "cities": ("every city has a mayor .", "cities and countries have rivers ."),
    "companies": ("companies are founded by people .", "every company has a founder ."),
    "read-question": ("read the question twice .", "read the question carefully ."),
    "understand": ("understand what the user wants .", "find out what is being asked ."),
    "plan": ("make a plan in your head .", "have a clear plan ."),
    "logic": ("use logic and reason .", "reason like a scientist ."),
    "neutral": ("stay neutral .", "do not take sides ."),
    "modern": ("the results are up to date .", "the results were written this year ."),
    "order": ("the results are sorted by relevance .", "the best result comes first ."),
    "three": ("every search returns three results .", "you will see three results at a time ."),
    "lower": ("all names are in lower case .", "names are single words ."),
    "begin": ("you may begin now .", "start when you are ready ."),
    "thanks": ("thank you for your help .", "your help is welcome ."),
    "trust": ("the user trusts you .", "people count on you ."),
    "mistakes": ("everybody makes mistakes .", "do not be afraid of mistakes ."),
    "creative": ("be creative .", "surprise the user with an idea ."),
    "focus": ("stay focused .", "do not lose sight of the goal ."),
    "team": ("you are part of a team .", "others will read your work ."),
    "confident": ("be confident .", "believe in your skills ."),
    "quiet": ("keep your thoughts to yourself .", "do not talk to the user ."),
    "rules": ("there are few rules .", "the rules are simple ."),
    "language": ("mind your grammar .", "write in good style ."),
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
"""What a hand that had only read the failure might try: good, bad and idle ideas by diagnosis."""

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
"""Ideas of an instruction written by someone who knows the demonstrations, as a control."""

SENTENCES: Mapping[str, Sequence[str]] = MappingProxyType(
    {**ABOUT_SEARCHING, **ABOUT_ANSWERING, **WITHOUT_EFFECT}
)
"""Every idea's wordings."""


def compose(ideas: Sequence[str], wording: int = 0) -> str:
    """The instruction that keeps the protocol and then says ``ideas`` in the given wording."""
    return " ".join([PROTOCOL_SENTENCE, *(SENTENCES[idea][wording] for idea in ideas)])


def sentence_bank() -> SentenceBank:
    """The bank for the proposers that work without an LLM."""
    return SentenceBank(sentences=SENTENCES, remedies=REMEDIES, fixed=(PROTOCOL_SENTENCE,))
