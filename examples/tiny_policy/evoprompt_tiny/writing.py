"""Sentences about the form of calls and answers, common to the tiny policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WRITING: Mapping[str, Sequence[str]] = {
    "number-only": ("Answer with the number alone.", "Give just the number and nothing else."),
    "sentence": ("Answer in a full sentence.", "Explain the answer in one sentence."),
    "name-things": ("Say what the answer counts.", "Name the things that you counted."),
    "valid-call": ("Close every bracket of a call.", "Write each call as valid JSON."),
    "loose-call": ("Do not bother with the form of a call.", "Brackets may be left out."),
}
"""Wordings by idea, good and bad."""

WRITING_REMEDIES: Mapping[str, Sequence[str]] = {
    "malformed call": ("valid-call", "loose-call", "rules", "language", "english"),
    "out of turns": ("stop", "hurry", "once", "split", "calm"),
    "wordy answer": ("number-only", "sentence", "answer-it", "quiet", "polite", "name-things"),
}
"""Ideas against the diagnoses of :attr:`Attempt.form_diagnoses`; some are those of the world."""

WRITING_EFFECTS: Mapping[str, Mapping[str, float]] = {
    "number-only": {"wordy": -2.5},
    "sentence": {"wordy": 3.0},
    "name-things": {"wordy": 2.0},
    "valid-call": {"malformed": -2.0},
    "loose-call": {"malformed": 3.0},
    "check": {"slip": -1.5},
    "copy": {"slip": -1.0},
    "guess": {"slip": 2.0},
}
"""How ideas move the log-odds of a ``wordy`` answer, a ``malformed`` call and a ``slip``."""
