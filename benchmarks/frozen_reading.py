"""Real questions and passages for ``evoprompt.optimize`` and ``gepa.optimize``; a scripted reader.

    python -m benchmarks.frozen_reading ../shared/data/qa

Questions, passages and right answers are real: those of six public sets, with the five passages
that BM25 finds. The reader is no language model but a few rules that take an answer out of the
passages, and it does what the sentences of its instruction tell it: read more than one passage,
look for the sentence that shares words with the question, write a name in place of a sentence, and
so on. Without them it writes down the first sentence of the first passage. Many questions it gets
wrong whatever it is told, and a sentence that helps at one question does harm at another. What an
incumbent is worth is told as a share of the way from the first instruction to the best set of
habits that a search over all questions finds, on questions that no optimizer sees.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean, median, stdev
from typing import NamedTuple

from evoprompt_retrieval.backends import open_index
from evoprompt_retrieval.bm25 import Analyzer
from evoprompt_retrieval.corpus import Corpus
from evoprompt_smollm2.answers import contained, f1

from benchmarks.frozen import reached
from benchmarks.frozen_readers import OPTIMIZERS, Reader
from evoprompt.bank import SentenceBank
from evoprompt.types import Question, Trajectory

SETS = (
    *("popqa_test", "nq_test", "nq_trainproxy", "triviaqa_test", "hotpotqa_test"),
    "2wikimultihopqa_test",
)

HABITS = {
    "several": ("Read three texts, not one.", "Look at three texts."),
    "match": ("Find the sentence that has the words of the question.", "Match the question."),
    "name": ("Write only the name, date or number.", "Give the name alone."),
    "number": ("Answer when and how many with a number.", "Give dates as numbers."),
    "new": ("Never answer with words of the question.", "Do not repeat the question."),
    "near": ("The answer stands near the words of the question.", "Look close by."),
    "title": ("The title of a text may be the answer.", "Titles are answers, too."),
    "yes-no": ("If it can be answered with yes or no, say no.", "Doubt what is asked for."),
}
HARM = {
    "explain": ("Explain your answer.", "Tell how you know it."),
    "last": ("Trust the last text most.", "The last text fits best."),
    "short": ("Answer in two words.", "Use no more than two words."),
}
IDLE = {
    "assistant": ("You are an expert assistant.", "You are a librarian."),
    "calm": ("Take a deep breath.", "Stay calm."),
    "honest": ("Be honest.", "Always tell the truth."),
    "plain": ("Write in plain English.", "Use simple words."),
}
BANK = SentenceBank(
    sentences={**HABITS, **HARM, **IDLE},
    remedies={
        "wordy": ("name", "short", "plain", "title", "calm"),
        "wrong": ("several", "match", "near", "new", "title", "last", "honest", "explain"),
        "number": ("number", "plain", "explain"),
        "doubt": ("yes-no", "honest", "assistant"),
    },
)
FIRST = "You are a helpful assistant."

MARKS = (400, 800, 1_500)
"""Rollouts after which the incumbents are compared, beside the end."""

_ALL = (*HABITS, *HARM)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"(])")
_NAME = re.compile(r"\d[\d,.]*\d|\d|[A-Z][\w'.-]*(?:\s+(?:of|the|de|and)?\s*[A-Z][\w'.-]*)*")
_DOUBT = re.compile(r"(is|are|was|were|do|does|did|have|has) ")
_COUNT = re.compile(r"\bwhen\b|how (many|much|old|long)|what year")
_analyze = Analyzer()


class _Name(NamedTuple):
    """A name or number: whether it is of the question's words, and how far from any of them."""

    text: str
    asked: bool
    distance: int


@lru_cache(maxsize=100_000)
def habits_in(text: str) -> frozenset[str]:
    """The habits that an instruction teaches."""
    known = {**HABITS, **HARM}
    return frozenset(name for name, said in known.items() if any(one in text for one in said))


class Page:
    """A question with what BM25 finds for it.

    Args:
        question: with its right answers.
        passages: title and text of each, the best first.
    """

    def __init__(self, question: Question, passages: Sequence[tuple[str, str]]) -> None:
        self.question = question
        self._passages = passages
        self._words = frozenset(_analyze(question.text))
        self._sentences = [
            [(one, len(self._words & {*_analyze(one)})) for one in _SENTENCE.split(text.strip())]
            for _, text in passages
        ]
        asked = question.text.lower()
        self._doubts = bool(_DOUBT.match(asked))
        self._counts = bool(_COUNT.search(asked))
        self._names: dict[str, Sequence[_Name]] = {}
        self._rewards: dict[str, float] = {}

    def reward(self, habits: frozenset[str]) -> float:
        """F1 of the answer."""
        said = self.answer(habits)
        if said not in self._rewards:
            self._rewards[said] = f1(said, self.question.answers)
        return self._rewards[said]

    def answer(self, habits: frozenset[str]) -> str:
        """What the reader says; the same whenever it is asked."""
        if "yes-no" in habits and self._doubts:
            return "no"
        order = range(len(self._passages))
        chosen = [*order][::-1][:1] if "last" in habits else [*order][:1]
        if "several" in habits:
            chosen = [*dict.fromkeys([*chosen, *order])][:3]
        found = [(at, one, shared) for at in chosen for one, shared in self._sentences[at]]
        if not found:
            return ""
        at, sentence, _ = max(found, key=lambda one: one[2]) if "match" in habits else found[0]
        title = self._passages[at][0]
        said = self._name(sentence, title, habits) if "name" in habits else sentence
        if "short" in habits:
            said = " ".join(said.split()[:2])
        return f"{said}, because the text about {title} says so" if "explain" in habits else said

    def _name(self, sentence: str, title: str, habits: frozenset[str]) -> str:
        """One name or number of a sentence, or the title of its passage."""
        names = [*self._names_in(sentence)]
        if "title" in habits:
            names.insert(0, _Name(title, self._words >= {*_analyze(title)}, 0))
        if "new" in habits:
            names = [one for one in names if not one.asked]
        if "number" in habits:
            names = [one for one in names if one.text[:1].isdigit() == self._counts] or names
        if "near" in habits:
            names.sort(key=lambda one: one.distance)
        return names[0].text if names else sentence

    def _names_in(self, sentence: str) -> Sequence[_Name]:
        if sentence not in self._names:
            words = [(one.group(), one.start()) for one in re.finditer(r"\w+", sentence)]
            places = [at for word, at in words if self._words & {*_analyze(word)}]
            self._names[sentence] = [
                _Name(
                    text := one.group().strip(" .,"),
                    self._words >= {*_analyze(text)},
                    min((abs(one.start() - at) for at in places), default=0),
                )
                for one in _NAME.finditer(sentence)
            ]
        return self._names[sentence]


def pages(folder: Path, index: Path) -> Iterator[Page]:
    """All questions of :data:`SETS` with their passages."""
    corpus = Corpus.open(folder / "corpus.jsonl", index)
    search = open_index(corpus, index, "bm25")
    for name in SETS:
        for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            hits = search.search([row["question"]], 5)[0]
            found = [(corpus[hit.row].title, corpus[hit.row].text) for hit in hits]
            answers = tuple(row["golden_answers"])
            yield Page(Question(f"{name}/{row['id']}", row["question"], answers), found)


class World:
    """All questions, and what sets of habits are worth at them.

    Args:
        found: the questions.

    Attributes:
        questions: the same.
        best: the most valuable habits that a search from many starts has found.
    """

    def __init__(self, found: Sequence[Page]) -> None:
        self._pages = {page.question.id: page for page in found}
        self.questions = [page.question for page in found]
        rng = random.Random(0)
        tops = [self._climb({one for one in _ALL if rng.random() < 0.5}) for _ in range(6)]
        self.best = max(tops, key=lambda habits: self.worth(habits, self.questions))

    def read(self, text: str, asked: Sequence[Question]) -> Sequence[str]:
        """What the reader says under an instruction."""
        return [self._pages[one.id].answer(habits_in(text)) for one in asked]

    def worth(self, habits: frozenset[str], asked: Sequence[Question]) -> float:
        """What habits are worth on ``asked``."""
        return fmean(self._pages[one.id].reward(habits) for one in asked)

    def _climb(self, start: Iterable[str]) -> frozenset[str]:
        """Adds and drops one habit at a time as long as that is worth more."""
        habits = frozenset(start)
        while True:
            near = max(
                (habits ^ {one} for one in _ALL), key=lambda s: self.worth(s, self.questions)
            )
            if self.worth(near, self.questions) <= self.worth(habits, self.questions):
                return habits
            habits = near


def diagnose(trajectory: Trajectory) -> Sequence[str]:
    """What the teacher sees of a failure."""
    said, answers = trajectory.turns[-1].action, trajectory.question.answers
    signs = {
        "wordy": len(said.split()) > 4,
        "wrong": not contained(said, answers),
        "number": any(one[:1].isdigit() for one in answers) and not said[:1].isdigit(),
        "doubt": bool({"yes", "no"} & {one.lower() for one in answers}),
    }
    return [name for name, applies in signs.items() if applies]


def main() -> None:
    """Reads the command line and prints a row for each optimizer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", type=Path, help="folder of the sets and corpus.jsonl")
    parser.add_argument("--index", type=Path, help="folder of the index, to be kept")
    parser.add_argument("--first", type=int, default=20, help="first seed")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=3000)
    parser.add_argument("--share", type=float, default=0.6, help="of the way to the best")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as kept:
        world = World([*pages(options.questions, options.index or Path(kept))])
    every, first = world.questions, habits_in(FIRST)
    print(
        f"{len(every)} questions, F1 {world.worth(first, every):.3f} under the first instruction,"
    )
    print(f"{world.worth(world.best, every):.3f} under the best: {', '.join(sorted(world.best))}")
    marks = [mark for mark in MARKS if mark < options.budget]
    shares = " | ".join([*(f"after {mark:,}" for mark in marks), "at the end"])
    print(f"| optimizer | {shares} | rollouts to {options.share} | rollouts spent | calls |")
    print("|---|" + "---|" * (len(marks) + 4))
    for name in OPTIMIZERS:
        seeds = range(options.first, options.first + options.seeds)
        print(row_of(name, world, seeds, options.budget, options.share, marks), flush=True)


def row_of(
    name: str, world: World, seeds: Sequence[int], budget: int, share: float, marks: Sequence[int]
) -> str:
    """A row of the table: shares of the way to the best with standard errors over the seeds."""
    costs, shares, spent, calls = [], [], [], []
    for seed in seeds:
        order = random.Random(f"questions/{seed}").sample(world.questions, len(world.questions))
        asked = order[140:]
        low, high = world.worth(habits_in(FIRST), asked), world.worth(world.best, asked)
        reader = Reader(world.read, BANK, diagnose, seed)
        found = OPTIMIZERS[name](reader, FIRST, order[:100], order[100:140], budget, seed)
        way = [
            (made, (world.worth(habits_in(text), asked) - low) / (high - low))
            for made, text in found.curve
        ]
        costs.append(reached(way, share))
        shares.append([_after(mark, way) for mark in [*marks, math.inf]])
        spent.append(found.rollouts)
        calls.append(found.calls)
    cells = [f"{fmean(one):.2f} ± {stderr(one):.2f}" for one in zip(*shares, strict=True)]
    never = sum(map(math.isinf, costs))
    cells += [f"{median(costs):.0f}, {never} never", f"{fmean(spent):.0f}", f"{fmean(calls):.0f}"]
    return f"| {name} | " + " | ".join(cells) + " |"


def _after(mark: float, way: Sequence[tuple[int, float]]) -> float:
    """What the incumbent after ``mark`` rollouts is worth; 0 before there is one."""
    return next((worth for made, worth in reversed(way) if made <= mark), 0.0)


def stderr(values: Sequence[float]) -> float:
    """Standard error of a mean."""
    return stdev(values) / math.sqrt(len(values))


if __name__ == "__main__":
    main()
