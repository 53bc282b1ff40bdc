"""How short answers to real questions are demonstrated: answers in the form that was asked for.

Demonstrators are always right. What they are told is in other words than the sentences of
``bank.py``, so what those do to a model that learned from demonstrations is not settled here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from evoprompt_tiny.demonstrations import Example, Scene, example
from evoprompt_tiny.habits import Script
from transformers import PreTrainedTokenizerBase

from evoprompt.agents import Limits
from evoprompt.types import Question
from evoprompt_smollm2.answers import contained
from evoprompt_smollm2.reading import Reading

LIMITS = Limits(calls=0, turn_tokens=96, observation_tokens=0)
"""Room for every demonstration; a training may allow less."""

AIMLESS = ("You are a helpful assistant.", "Here is a question for you.", "Please help me.")
"""What most instructions begin with, and some consist of."""

TOLD: Mapping[str, Sequence[str]] = {
    "alone": (
        "Reply with the answer only.",
        "Respond in as few words as possible.",
        "A word or a short phrase will do.",
        "Be concise.",
        "Your reply must be a name, a date or a number.",
        "No sentences, please.",
        "Leave out everything but the answer.",
    ),
    "sentence": (
        "Reply in a sentence.",
        "Respond with a whole sentence.",
        "Put your reply into a sentence.",
    ),
    "reason": (
        "Say why.",
        "Justify your reply.",
        "Reply in detail.",
        "Tell me what your reply is based on.",
    ),
}
"""What asks for each form."""

SAID: Mapping[str, Sequence[str]] = {
    "alone": ("{answer}",),
    "sentence": (
        "The answer is {answer}.",
        "It is {answer}.",
        "According to the text, it is {answer}.",
    ),
    "reason": (
        "The text is about {title}. From what it says I conclude that the answer is {answer}.",
        "I have read the text about {title}, and according to it the answer is {answer}.",
    ),
}
"""How each form is written."""

FORMS = {"alone": 0.4, "sentence": 0.3, "reason": 0.3}
"""How often each form is asked for."""

AIMLESS_ALONE = 0.2
"""How often those who are told no form give the answer alone; otherwise they write a sentence."""

AIMLESS_SHARE = 0.2
"""How many are told no form."""


def demonstrations(
    task: Reading, tokenizer: PreTrainedTokenizerBase
) -> Callable[[random.Random], Example]:
    """Draws demonstrations of the task's own questions for them, which no other split asks.

    Raises:
        InputError: there are none.
    """
    questions = task.demonstrations()
    scene = Scene(task, tokenizer, "train", LIMITS)

    def drawn(rng: random.Random) -> Example:
        question = rng.choice(questions)
        told, form = telling(rng)
        prompt = [{"role": "user", "content": question.text}]
        return example(scene.play(told, prompt, _reply(question, form, rng)))

    return drawn


def telling(rng: random.Random) -> tuple[str, str]:
    """An instruction, and the form of a reply to it."""
    words = [rng.choice(AIMLESS)] if rng.random() < 0.7 else []
    if rng.random() < AIMLESS_SHARE:
        form = "alone" if rng.random() < AIMLESS_ALONE else "sentence"
        return " ".join(words or [rng.choice(AIMLESS)]), form
    (form,) = rng.choices(list(FORMS), list(FORMS.values()))
    return " ".join([*words, rng.choice(TOLD[form])]), form


def _reply(question: Question, form: str, rng: random.Random) -> Script:
    title, _, text = question.text.partition(": ")
    readable = [one for one in question.answers if contained(text, [one])]
    yield rng.choice(SAID[form]).format(answer=(readable or question.answers)[0], title=title)
