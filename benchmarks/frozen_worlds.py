"""Problems for ``benchmarks/frozen.py``: scripted models that obey a text, and their writers.

A text is read as the set of the sentences in it. A question needs one habit or two, and some
sentences do harm; the model does what it is told, so it is known exactly what an instruction is
worth. The teacher sees what an optimizer shows it and makes one change to a text: it adds the habit
that a failure asks for, takes out the sentence that did harm, or, as often as it errs, adds a
sentence that helps nobody.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from evoprompt.support.text import sentences

Texts = Mapping[str, str]

_VERBS = (
    *("Check", "Name", "Count", "Compare", "Quote", "Sort", "Weigh", "Trace", "List", "Rank"),
    *("Test", "Mark", "Join", "Split", "Round", "Scale", "Match", "Merge", "Guard", "Limit"),
)
_NOUNS = (
    *("units", "dates", "signs", "sources", "limits", "roots", "tables", "terms", "brackets"),
    *("pronouns", "margins", "totals", "labels", "orders", "ratios", "vowels", "angles", "colours"),
    *("weights", "borders"),
)


def habit(index: int) -> str:
    """Return the sentence that teaches a habit; no two are similar."""
    noun, verb = _NOUNS[index % 20], _VERBS[(index * 7 + index // 20) % 20]
    return f"{verb} all {noun} number {index} before anything else."


@lru_cache
def _said(text: str) -> frozenset[str]:
    return frozenset(sentences(text))


@dataclass(frozen=True, slots=True)
class Family:
    """Common settings of the problems of one kind.

    Attributes:
        name: in tables.
        rules: habits that there are to learn.
        components: texts that the habits are spread over; a habit works in its own one only.
        pairs: share of the questions that need two habits, and are half right with one.
        decoys: sentences that do harm to the questions of one habit.
        flips: how often the metric says the contrary.
        spread: how much more often the most frequent habit is needed than the rarest.
        skill: how often the teacher makes the change that a failure asks for.
        worthless: sentences that help nobody, of which an erring teacher may add one.
        difficulty: where it is not 0, answers are drawn: every habit makes every question likelier
            to be right, and this is the standard deviation of their difficulty, in logits.
        greedy: whether a text's answer to a question is always the same, and another text's is
            drawn anew however little the two differ.
    """

    name: str
    rules: int = 8
    components: int = 1
    pairs: float = 0.0
    decoys: int = 0
    flips: float = 0.0
    spread: float = 2.0
    skill: float = 0.7
    worthless: int = 4
    difficulty: float = 0.0
    greedy: bool = False


FAMILIES = (
    Family("additive"),
    Family("interacting", pairs=0.4, decoys=4, skill=0.6),
    Family("noisy", rules=6, flips=0.2),
    Family("components", rules=9, components=3),
    Family("drawn", difficulty=2.0),
    Family("70 % harmful", decoys=8, skill=0.3, worthless=0),
    Family("90 % harmful", decoys=8, skill=0.1, worthless=0),
    Family("chaotic", difficulty=2.0, greedy=True),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: its id, the habits that it needs, and how hard it is, in logits."""

    id: int
    needs: tuple[int, ...]
    difficulty: float


@dataclass(frozen=True, slots=True)
class Record:
    """Record of a rollout for a teacher: its reward and the metric's words."""

    reward: float
    feedback: str


class Problem:
    """One problem of a family.

    Args:
        family: of which.
        seed: of its questions, its noise and its teacher.
        train: training questions.
        validation: validation questions.
    """

    def __init__(self, family: Family, seed: int, train: int = 100, validation: int = 40) -> None:
        self.family = family
        self.names = [f"part {index}" for index in range(family.components)]
        self.habits = {index: habit(index) for index in range(family.rules)}
        self.decoys = {habit(100 + index): index for index in range(family.decoys)}
        self._seed = seed
        rng = random.Random(f"{family.name}/{seed}")
        self._noise = random.Random(f"{family.name}/{seed}/noise")
        self._weights = [family.spread ** (i / (family.rules - 1)) for i in range(family.rules)]
        rng.shuffle(self._weights)
        self.train = [self._draw(rng, index) for index in range(train)]
        self.validation = [self._draw(rng, train + index) for index in range(validation)]
        self.held_out = [self._draw(rng, -1 - index) for index in range(400)]
        self.rollouts = 0

    @property
    def seed_texts(self) -> dict[str, str]:
        """Where every optimizer starts."""
        return {name: f"You are the {name} of an assistant." for name in self.names}

    def home(self, rule: int) -> str:
        """Return the component of a habit."""
        return self.names[rule % len(self.names)]

    def _draw(self, rng: random.Random, identity: int) -> Asked:
        rules = range(self.family.rules)
        (first,) = rng.choices(rules, self._weights)
        pair = rng.random() < self.family.pairs
        needs = (first, (first + 1) % self.family.rules) if pair else (first,)
        return Asked(identity, needs, rng.gauss(0, self.family.difficulty))

    def answer(self, texts: Texts, question: Asked) -> tuple[float, str]:
        """Return the mean reward, and the feedback of a low one."""
        sentences = {name: _said(text) for name, text in texts.items()}
        if self.family.difficulty:
            return self._likely(sentences, question)
        harm = [
            decoy
            for decoy, victim in self.decoys.items()
            if victim == question.needs[0] and any(decoy in part for part in sentences.values())
        ]
        if harm:
            return 0.0, f"harm: {harm[0]}"
        missing = [r for r in question.needs if self.habits[r] not in sentences[self.home(r)]]
        reward = 1 - len(missing) / len(question.needs)
        return (
            reward,
            f"missing: {self.home(missing[0])}: {self.habits[missing[0]]}" if missing else "",
        )

    def _likely(
        self, sentences: Mapping[str, frozenset[str]], question: Asked
    ) -> tuple[float, str]:
        absent = [
            r for r, sentence in self.habits.items() if sentence not in sentences[self.home(r)]
        ]
        lacking = sum(self._weights[r] for r in absent) / sum(self._weights)
        chance = 1 / (1 + math.exp(-(3 - 5 * lacking - question.difficulty)))
        missing_habit = self.habits[absent[question.id % len(absent)]] if absent else habit(199)
        return chance, f"missing: {self.home(0)}: {missing_habit}"

    def rollout(self, texts: Texts, question: Asked) -> Record:
        """Return one rollout with the metric's noise, and count it."""
        self.rollouts += 1
        reward, feedback = self.answer(texts, question)
        if self.family.greedy:
            generator = random.Random(f"{sorted(texts.items())}/{question.id}/{self._seed}")
            reward = float(generator.random() < reward)
        elif self.family.difficulty:
            reward = float(self._noise.random() < reward)
        if self._noise.random() < self.family.flips:
            wrong = self._noise.randrange(200, 10_000)
            name = self._noise.choice(self.names)
            return Record(1 - reward, "" if reward < 1 else f"missing: {name}: {habit(wrong)}")
        return Record(reward, feedback)

    def truth(self, texts: Texts) -> float:
        """Return the true value of ``texts`` on questions that no optimizer sees."""
        return sum(self.answer(texts, question)[0] for question in self.held_out) / len(
            self.held_out
        )

    @cached_property
    def target(self) -> float:
        """Return the value at .95 of the way from the first texts to all habits alone."""
        texts = dict(self.seed_texts)
        first = self.truth(texts)
        for rule, sentence in self.habits.items():
            texts[self.home(rule)] += f" {sentence}"
        return first + 0.95 * (self.truth(texts) - first)

    def rewrite(
        self, texts: Texts, component: str, records: Sequence[Record], rng: random.Random
    ) -> str:
        """Return the teacher's next version of one component, from ``records``."""
        text = texts[component]
        failed = [record.feedback for record in records if record.reward < 1 and record.feedback]
        kind, _, fault = rng.choice(failed).partition(": ") if failed else ("", "", "")
        if rng.random() < self.family.skill:
            if kind == "harm" and fault in text:
                return text.replace(f" {fault}", "")
            home, _, missing_habit = fault.partition(": ")
            if kind == "missing" and home == component and missing_habit not in text:
                return f"{text} {missing_habit}"
        idle = [habit(rng.randrange(200, 10_000)) for _ in range(self.family.worthless)]
        errors = [decoy for decoy in (*self.decoys, *idle) if decoy not in text]
        return f"{text} {rng.choice(errors)}" if errors else text


def draw_uniform(*key: object) -> float:
    """Return a number from 0 to 1 that is always the same for ``key``."""
    return random.Random(repr(key)).random()


class Trap(Problem):
    """A shortcut answers six of ten questions and blocks the others, whatever else the text says.

    Without the shortcut a question is answered where the text has its habit. So the shortcut wins
    over five habits of eight, loses to six, and a text that holds it gains nothing by a habit.
    """

    SHORTCUT = habit(150)
    _SHARE = 0.6

    def answer(self, texts: Texts, question: Asked) -> tuple[float, str]:
        """Return the reward; the feedback names a missing habit, or the shortcut where none is."""
        text = texts[self.names[0]]
        needed_habit = self.habits[question.needs[0]]
        missing = "" if needed_habit in text else f"missing: {self.names[0]}: {needed_habit}"
        if self.SHORTCUT not in text:
            return float(not missing), missing
        if draw_uniform("trap", self._seed, question.id) < self._SHARE:
            return 1.0, ""
        return 0.0, missing or f"harm: {self.SHORTCUT}"

    def rewrite(
        self, texts: Texts, component: str, records: Sequence[Record], rng: random.Random
    ) -> str:
        """Return the text with one change; one in ten adds the shortcut, or takes it out."""
        text = texts[component]
        if rng.random() >= 0.1:
            return super().rewrite(texts, component, records, rng)
        if self.SHORTCUT in text:
            return text.replace(f" {self.SHORTCUT}", "")
        return f"{text} {self.SHORTCUT}"


class Pair(Problem):
    """Two texts whose sentences work in pairs; half of a pair helps some questions, harms more.

    Five pairs; a question is about one of them. With the whole pair the reward is 1, without it .4.
    With half of it .6 for two of five questions, and .2 for the others. Rewards repeat themselves.
    """

    def answer(self, texts: Texts, question: Asked) -> tuple[float, str]:
        """Return the reward; the feedback names a missing half of the pair."""
        rules = [question.needs[0] // 2 * 2, question.needs[0] // 2 * 2 + 1]
        absent = [rule for rule in rules if self.habits[rule] not in texts[self.home(rule)]]
        if not absent:
            return 1.0, ""
        rule = absent[question.id % len(absent)]
        is_lucky = draw_uniform("pair", self._seed, question.id) < 0.4
        half = 0.6 if is_lucky else 0.2
        reward = 0.4 if len(absent) == len(rules) else half
        return reward, f"missing: {self.home(rule)}: {self.habits[rule]}"


class Graded(Problem):
    """Grades with noise, and a fifth of the answers is lost and gets 0.

    A grade is .1, .5 for the habit of the question, and .4 times the share of all habits, plus
    noise with a standard deviation of .15.
    """

    _LOST = 0.2

    def answer(self, texts: Texts, question: Asked) -> tuple[float, str]:
        """Return the mean reward, lost answers included, and the habit that is missing."""
        text = texts[self.names[0]]
        needed_habit = self.habits[question.needs[0]]
        share = sum(habit in text for habit in self.habits.values()) / len(self.habits)
        grade = 0.1 + 0.5 * (needed_habit in text) + 0.4 * share
        feedback = "" if needed_habit in text else f"missing: {self.names[0]}: {needed_habit}"
        return grade * (1 - self._LOST), feedback

    def rollout(self, texts: Texts, question: Asked) -> Record:
        """Return one noisy grade."""
        self.rollouts += 1
        mean, feedback = self.answer(texts, question)
        if self._noise.random() < self._LOST:
            return Record(0.0, "the answer was lost")
        grade = mean / (1 - self._LOST) + self._noise.gauss(0, 0.15)
        return Record(min(max(grade, 0.0), 1.0), feedback)


class Shuffle(Problem):
    """A greedy model: each sentence that comes or goes redraws the answers to a quarter."""

    def rollout(self, texts: Texts, question: Asked) -> Record:
        """Return the only answer that these texts ever give to the question."""
        self.rollouts += 1
        chance, feedback = self.answer(texts, question)
        sentences = sorted(sentence for text in texts.values() for sentence in _said(text))
        deciding = [
            sentence
            for sentence in sentences
            if draw_uniform(sentence, question.id, self._seed) < 0.25
        ]
        draw = draw_uniform("shuffle", deciding, question.id, self._seed)
        return Record(float(draw < chance), feedback)


class Chatty(Problem):
    """A writer that puts the whole text in other words, and forgets a tenth of what it said.

    What the words around the habits are makes no difference to the model.
    """

    _FORGETS = 0.1

    def rewrite(
        self, texts: Texts, component: str, records: Sequence[Record], rng: random.Random
    ) -> str:
        """Return another text with one change, and without some habits."""
        text = super().rewrite(texts, component, records, rng)
        known_habits = [habit for habit in self.habits.values() if habit in text]
        new_habits = [
            known_habit for known_habit in known_habits if known_habit not in texts[component]
        ]
        remembered = [
            known_habit
            for known_habit in known_habits
            if known_habit in new_habits or rng.random() >= self._FORGETS
        ]
        rng.shuffle(remembered)
        return " ".join([habit(rng.randrange(200, 10_000)), *remembered])


SENTENCES = tuple(habit(index) for index in range(13))
STAGES = ("find", "answer")
_KINDS = 4
_ADDS, _DROPS = 0.7, 0.85  # of a draw below the first one it adds, below the second it takes out


class Pipeline(Problem):
    """A pipeline of two texts, and a writer that draws from thirteen sentences.

    Both stages have to do their part, or the answer is wrong. The writer is shown nothing, and so
    it soon proposes what it has proposed before. Which sentence helps which stage with which kind
    of question, and which does harm, is drawn anew with each seed. Rewards are 0 or 1 and repeat
    themselves. What a text is really worth is computed on 1,000 other questions.

    Args:
        seed: of its questions, of what the sentences do, and of the writer.
        validation: validation questions.
    """

    target = math.inf  # the best there is, is not known

    def __init__(self, seed: int, validation: int = 40) -> None:
        super().__init__(Family("pipeline", components=2), seed, train=0, validation=0)
        self.names = list(STAGES)
        rng = random.Random(f"pipeline/{seed}")
        self._effects: dict[tuple[str, str, int], float] = {}
        for stage in STAGES:
            shuffled_sentences = rng.sample(SENTENCES, len(SENTENCES))
            for effect, group in ((1.0, shuffled_sentences[:4]), (-1.0, shuffled_sentences[4:7])):
                for sentence in group:
                    for kind in rng.sample(range(_KINDS), 2):
                        self._effects[stage, sentence, kind] = effect
        self._hard: dict[tuple[int, str], float] = {}
        self.train = [self._question(rng, index) for index in range(40)]
        self.validation = [self._question(rng, 40 + index) for index in range(validation)]
        self.held_out = [self._question(rng, -1 - index) for index in range(1000)]

    def _question(self, rng: random.Random, identity: int) -> Asked:
        for stage in STAGES:
            self._hard[identity, stage] = rng.gauss(0, 1)
        return Asked(identity, (rng.randrange(_KINDS),), 0.0)

    def answer(self, texts: Texts, question: Asked) -> tuple[float, str]:
        """Return whether both stages succeed; the feedback names only the stage."""
        for stage in STAGES:
            skill = sum(
                self._effects.get((stage, sentence, question.needs[0]), 0.0)
                for sentence in _said(texts[stage])
            )
            if skill < self._hard[question.id, stage]:
                return 0.0, f"wrong, for the stage {stage} failed"
        return 1.0, ""

    def rewrite(
        self, texts: Texts, component: str, records: Sequence[Record], rng: random.Random
    ) -> str:
        """Return the text of ``component`` with a sentence added, removed or replaced."""
        text = texts[component]
        present_sentences = [sentence for sentence in SENTENCES if sentence in text]
        absent_sentences = [sentence for sentence in SENTENCES if sentence not in text]
        draw = rng.random()
        if (not present_sentences or draw < _ADDS) and absent_sentences:
            return f"{text} {rng.choice(absent_sentences)}"
        old = rng.choice(present_sentences)
        if draw < _DROPS or not absent_sentences:
            return text.replace(f" {old}", "")
        return text.replace(old, rng.choice(absent_sentences))


_WORTH = 0.4


class Luck(Pipeline):
    """Every text is worth the same; which questions it answers is luck."""

    def answer(self, texts: Texts, question: Asked) -> tuple[float, str]:
        """Right in four of ten cases."""
        key = f"{sorted(texts.items())}/{question.id}"
        return float(zlib.crc32(key.encode()) % 1000 < 1000 * _WORTH), "wrong"

    def truth(self, texts: Texts) -> float:
        """Return the same chance for all."""
        return _WORTH


class LuckAnew(Luck):
    """The same, drawn each time."""

    def rollout(self, texts: Texts, question: Asked) -> Record:
        """Right in four of ten cases."""
        self.rollouts += 1
        return Record(float(self._noise.random() < _WORTH), "wrong")
