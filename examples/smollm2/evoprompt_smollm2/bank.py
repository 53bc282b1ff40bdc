"""Plain English sentences about short answers.

Written before anything was measured. What each does to a model is not known here; that is what a
training finds out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evoprompt.bank import SentenceBank

WORDY = 5
"""Words beyond which an answer is no short one."""

ABOUT_LENGTH: Mapping[str, Sequence[str]] = {
    "short": ("Keep the answer short.", "Be as brief as you can."),
    "few-words": ("Answer in one to three words.", "Use at most three words."),
    "name-only": ("Write only the name, date or number.", "Give the name alone."),
    "no-sentence": ("Do not write a sentence.", "A full sentence is wrong."),
    "nothing-else": ("Write nothing else.", "Say nothing before or after the answer."),
    "no-repeat": ("Do not repeat the question.", "Never begin with words of the question."),
    "no-reason": ("Do not explain.", "Give no reasons."),
    "sentence": ("Answer in a full sentence.", "Write a complete sentence."),
    "explain": ("Explain your answer.", "Tell how you know it."),
    "detail": ("Give all details.", "Say as much as you can."),
}

ABOUT_READING: Mapping[str, Sequence[str]] = {
    "from-text": ("The answer is in the text.", "Find the answer in the text above."),
    "copy": ("Copy the answer from the text.", "Use the exact words of the text."),
    "first": ("Look at the first text first.", "The first text fits best."),
    "kind": (
        "Answer who with a person, where with a place and when with a date.",
        "Give what the question asks for: a person, a place, a date or a number.",
    ),
    "memory": ("Answer from memory.", "Use what you already know."),
    "careful": ("Read the text carefully.", "Read the question twice."),
    "guess": ("Guess if you are not sure.", "Always give an answer."),
    "example": (
        "If the text says that Ulm lies on the Danube and the question is on which river Ulm lies, "
        'answer "Danube".',
        'For example, to "Who wrote Emma?" answer "Jane Austen".',
    ),
}

WITHOUT_AIM: Mapping[str, Sequence[str]] = {
    "assistant": ("You are a helpful assistant.", "You are an expert assistant."),
    "answer-it": ("Answer the question.", "Give an answer to the question."),
    "quiz": ("This is a quiz.", "You are in a quiz show."),
    "polite": ("Be polite.", "Use a friendly tone."),
    "calm": ("Take a deep breath.", "Stay calm."),
    "important": ("This is very important.", "A lot depends on this."),
    "honest": ("Be honest.", "Always tell the truth."),
    "english": ("Write in plain English.", "Use simple words."),
    "librarian": ("You are a librarian.", "You know a lot about the world."),
    "format": ("Write plain text.", "Use no bullet points."),
}

BANK = SentenceBank(
    sentences={**ABOUT_LENGTH, **ABOUT_READING, **WITHOUT_AIM},
    remedies={
        "wordy": (
            *("short", "few-words", "name-only", "no-sentence", "nothing-else", "no-repeat"),
            *("no-reason", "format", "example", "sentence", "quiz"),
        ),
        "wrong": ("from-text", "copy", "first", "kind", "careful", "memory", "guess", "librarian"),
        "partly": ("copy", "kind", "name-only", "detail", "example", "careful"),
    },
)

SEED = "You are a helpful assistant. Explain your answer."
"""Where evolution starts; judged to be poor before anything was measured."""
