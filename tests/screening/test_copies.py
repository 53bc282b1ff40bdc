"""The index of training questions and answers decides as a plain search through all of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from evoprompt.replay import ReplayBuffer
from evoprompt.rules import CopyIndex, ScreeningContext, leak
from evoprompt.screening import Screening
from evoprompt.types import Assignment, Candidate, Proposal, Question, Trajectory

WORDS = ["Bergen", "lies", "by", "the", "sea", "of", "Ulm", "yes", "two", "顾怀远", "was", "it"]
ALWAYS_EVERYDAY = {"the", "of", "yes", "two", "was", "it", "by"}


def search(text: str, context: ScreeningContext) -> str | None:
    """Return the finding by a search through all questions and answers, one after the other."""

    def words_of(given: str) -> tuple[str, ...]:
        spaced = "".join(f" {letter} " if letter in "顾怀远" else letter for letter in given)
        return tuple(spaced.casefold().replace("?", " ").split())

    def runs_of(words: Sequence[str]) -> list[tuple[str, ...]]:
        return [tuple(words[start : start + 7]) for start in range(len(words) - 6)]

    def holds(whole: str, part: Sequence[str]) -> bool:
        return f" {' '.join(part)} " in f" {' '.join(words_of(whole))} "

    for answer in context.answers:
        words = words_of(answer)
        letters = len("".join(words))
        is_telling = letters > 3 and not set(words) <= ALWAYS_EVERYDAY
        if not answer.isascii():
            is_telling = letters > 2
        if is_telling and holds(text, words) and not holds(context.inherited_text, words):
            return f"the text holds the gold answer {answer!r} of a training question"
    questions = [words_of(question) for question in context.questions]
    every = {*questions, *map(words_of, context.trainset)}
    times = Counter(run for words in every for run in set(runs_of(words)))
    copies = [words for words in questions if 4 <= len(words) < 7]
    copies += [run for words in questions for run in runs_of(words) if times[run] == 1]
    for copy in copies:
        if holds(text, copy) and not holds(context.inherited_text, copy):
            return f"the text copies {' '.join(copy)!r} from a training question"
    return None


def sentence(rng: random.Random, most: int) -> str:
    words = rng.choices(WORDS[: rng.choice([4, 8, 12])], k=rng.randint(0, most))
    return " ".join(rng.choice([word, word.upper()]) for word in words) + rng.choice(["", "?"])


def sentences(rng: random.Random, number: int, most: int) -> list[str]:
    return [sentence(rng, most) for _ in range(rng.randint(0, number))]


def test_an_index_that_changes_decides_as_a_search() -> None:
    rng, index, findings = random.Random(7), CopyIndex(), Counter[str]()
    questions, answers = sentences(rng, 30, 9), sentences(rng, 9, 3)
    for _ in range(1_500):
        questions = [*questions[rng.randint(0, 3) :], *sentences(rng, 3, 9)]
        answers = [*answers[rng.randint(0, 2) :], *sentences(rng, 2, 3)]
        index.update(questions, answers)
        context = ScreeningContext(
            parents=sentences(rng, 2, 20),
            questions=questions,
            answers=answers if rng.random() < 0.4 else [],
            trainset=sentences(rng, 10, 9),
        )
        if not context.answers:
            index.update(questions, context.answers)
        whole = rng.choice([*questions, ""])
        proposal = Proposal.of(f"{sentence(rng, 9)} {whole} {sentence(rng, 20)}")
        expected = search(proposal.text, context)
        indexed = ScreeningContext(
            parents=context.parents,
            questions=questions,
            answers=context.answers,
            trainset=context.trainset,
            index=index,
        )
        assert leak(proposal, indexed) == expected
        assert leak(proposal, context) == expected
        findings[expected[:14] if expected else ""] += 1
    assert min(findings.values()) > 100, findings
    assert len(findings) == 3


def test_an_index_of_other_questions_is_not_used() -> None:
    index = CopyIndex()
    index.update(["Where does the sea lie?"], ["Bergen"])
    context = ScreeningContext(questions=["Who built the tower?"], answers=["Ulm am"], index=index)
    assert leak(Proposal.of("Say Bergen. Where does the sea lie?"), context) is None
    assert leak(Proposal.of("Say: who built the tower?"), context) is not None


class ReadText(str):
    """A text that counts how often its words are read."""

    read = 0

    def casefold(self) -> str:
        self.read += 1
        return super().casefold()


def test_the_words_of_a_remembered_question_are_read_once() -> None:
    number = 2**15 + 1  # more than the cache of words holds
    texts = [ReadText(f"q{n} x") for n in range(number)]
    seed = Candidate("c0", {"instruction": "Answer."})
    replay = ReplayBuffer(capacity=number)
    replay.add(
        1,
        [
            Trajectory(Assignment(f"a{n}", Question(f"q{n}", text), seed, 1, f"a{n}"), 0.0)
            for n, text in enumerate(texts)
        ],
    )
    screening = Screening(None, replay, ())
    for n in range(3):
        screening.screen([Proposal.of(f"Think {n} times.")], [seed], seed, 1)
    assert {text.read for text in texts} == {1}
