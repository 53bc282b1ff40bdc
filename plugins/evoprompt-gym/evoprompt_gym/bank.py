"""Plain English sentences for the proposers that need no language model, and their remedies.

They were written without trials; a training measures the effect of each on a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evoprompt.proposers.bank import SentenceBank
from evoprompt.types import Trajectory

IN_TAGS = "Write <answer>the final answer</answer>."
"""The sentence that every instruction keeps if answers stand in tags."""

_LONG = 8
"""Words beyond which an answer without tags is more than an answer."""

ABOUT_THINKING: Mapping[str, Sequence[str]] = {
    "steps": ("Think step by step.", "Solve it in small steps."),
    "write-steps": ("Write down every step.", "Show your work before the answer."),
    "plan": ("Make a plan first.", "Say first what has to be done."),
    "check": ("Check the result before you answer.", "Do it twice and compare."),
    "restate": ("Say first what is asked.", "Repeat the question in your own words."),
    "split": ("Take the input apart.", "Go through the input one piece at a time."),
    "rules": ("Follow the rules that are given.", "Read the rules again before you answer."),
    "careful": ("Read the question carefully.", "Take care with every sign and every digit."),
    "direct": ("Answer at once.", "Give the answer without thinking aloud."),
}

ABOUT_ANSWERING: Mapping[str, Sequence[str]] = {
    "only": ("Write only the answer.", "Say nothing but the answer."),
    "no-sentence": ("Do not write a sentence.", "Do not repeat the question."),
    "no-reason": ("Do not explain.", "Give no reasons."),
    "short": ("Be brief.", "Keep it short."),
    "form": (
        "Give the answer in the form that the question asks for.",
        "Write the answer just as the examples do.",
    ),
    "always": ("Always give an answer.", "Guess if you are not sure."),
    "end": ("End with the answer.", "The answer comes last."),
    "close": ("Close every tag that you open.", "Write both tags around the answer."),
    "sentence": ("Answer in a full sentence.", "Explain your answer."),
}

WITHOUT_AIM: Mapping[str, Sequence[str]] = {
    "assistant": ("You are a helpful assistant.", "You are an expert assistant."),
    "answer-it": ("Answer the question.", "Give an answer to the question."),
    "expert": ("You are good at puzzles.", "You are a professor of mathematics."),
    "calm": ("Take a deep breath.", "Stay calm."),
    "important": ("This is very important.", "A lot depends on this."),
    "test": ("This is a test.", "Treat this as an exam."),
    "polite": ("Be polite.", "Use a friendly tone."),
    "proud": ("Do your very best.", "Make the user proud."),
}

REMEDIES: Mapping[str, Sequence[str]] = {
    "no tags": ("close", "end", "always", "short", "direct", "form"),
    "wrong": ("steps", "write-steps", "split", "check", "careful", "rules", "plan", "direct"),
    "nearly": ("form", "only", "check", "careful", "no-sentence", "end"),
    "wordy": ("only", "no-sentence", "no-reason", "short", "direct", "form", "sentence"),
}


def bank(tags: bool) -> SentenceBank:
    """Return the sentences, for answers in tags or without."""
    sentences = {**ABOUT_THINKING, **ABOUT_ANSWERING, **WITHOUT_AIM}
    if tags:
        return SentenceBank(sentences, REMEDIES, fixed=(IN_TAGS,))
    return SentenceBank(sentences, REMEDIES).without(["close"])


def diagnose(trajectory: Trajectory, tags: bool) -> Sequence[str]:
    """Return the diagnoses of a failed trajectory, by the names of the remedies."""
    if not trajectory.turns or trajectory.reward is None or trajectory.reward >= 1:
        return ()
    answer = trajectory.turns[-1].action
    diagnoses = {
        "no tags": tags and not ("<answer>" in answer and "</answer>" in answer),
        "wordy": not tags and len(answer.split()) > _LONG,
        "nearly": trajectory.reward > 0,
    }
    return [name for name, applies in diagnoses.items() if applies] or ["wrong"]
