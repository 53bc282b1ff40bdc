"""Sentences without effect on any tiny policy: most of a bank, as in real prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

IDLE: Mapping[str, Sequence[str]] = {
    "assistant": ("You are a helpful assistant.", "You are an expert assistant."),
    "answer-it": ("Answer the question.", "Give an answer to the question."),
    "polite": ("Be polite.", "Use a friendly tone."),
    "calm": ("Take a deep breath.", "Stay calm and take your time."),
    "care": ("Think carefully.", "Work with great care."),
    "important": ("This is very important.", "A lot depends on this."),
    "reward": ("Good work will be rewarded.", "You will get a prize for this."),
    "today": ("The user needs this today.", "The user is waiting for you."),
    "honest": ("Be honest with the user.", "Always tell the truth."),
    "safe": ("Be safe and responsible.", "Respect the privacy of the user."),
    "english": ("Write in plain English.", "Use simple words."),
    "detective": ("Work like a detective.", "Act as a private detective."),
    "proud": ("Make the user proud.", "Do your very best."),
    "test": ("This is a test.", "Treat this as an exam."),
    "read-question": ("Read the question twice.", "Read the question carefully."),
    "understand": ("Understand what the user wants.", "Find out what is being asked."),
    "plan": ("Make a plan in your head.", "Have a clear plan."),
    "logic": ("Use logic and reason.", "Reason like a scientist."),
    "neutral": ("Stay neutral.", "Do not take sides."),
    "begin": ("You may begin now.", "Start when you are ready."),
    "thanks": ("Thank you for your help.", "Your help is welcome."),
    "trust": ("The user trusts you.", "People count on you."),
    "mistakes": ("Everybody makes mistakes.", "Do not be afraid of mistakes."),
    "creative": ("Be creative.", "Surprise the user with an idea."),
    "focus": ("Stay focused.", "Do not lose sight of the goal."),
    "team": ("You are part of a team.", "Others will read your work."),
    "confident": ("Be confident.", "Believe in your skills."),
    "quiet": ("Keep your thoughts to yourself.", "Do not talk to the user."),
    "rules": ("There are few rules.", "The rules are simple."),
    "language": ("Mind your grammar.", "Write in good style."),
}
"""Wordings by idea."""
