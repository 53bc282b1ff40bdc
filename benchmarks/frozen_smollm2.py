"""A real language model under ``evoprompt.optimize`` and ``gepa.optimize``: SmolLM2-135M reads.

    evoprompt model smollm2 runs/models/smollm2
    evoprompt reading prepare --output runs/reading-questions
    python -m benchmarks.frozen_smollm2 runs/models/smollm2 runs/reading-questions answers.jsonl

The task is that of ``examples/smollm2/reading.yaml``, and so are the bank of the teacher and the
first instruction, "You are a helpful assistant. Explain your answer." Answers are greedy. Each is
written to a file, so that none is computed twice and a run that was stopped goes on; the budgets of
both optimizers count them all the same.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev

import torch
from evoprompt_smollm2.answers import f1
from evoprompt_smollm2.bank import BANK, GOOD, POOR
from evoprompt_smollm2.reading import Reading, ReadingSettings
from evoprompt_trl.precision import native_bf16
from scipy.stats import t
from transformers import AutoModelForCausalLM

from benchmarks.frozen_readers import OPTIMIZERS, Reader
from evoprompt.agents import Action, Episode, Sampling, play
from evoprompt.agents.tasks import Player
from evoprompt.experiments.hosts.trl.generation import GREEDY, generate, load_tokenizer
from evoprompt.types import Candidate, Question

_AT_ONCE = 8


class Model:
    """The model, which remembers what it has answered.

    Args:
        folder: of the model.
        task: that it plays.
        path: file of the answers.
    """

    def __init__(self, folder: Path, task: Reading, path: Path) -> None:
        self._task, self._path = task, path
        self._tokenizer = load_tokenizer(str(folder))
        dtype = torch.bfloat16 if native_bf16("cpu") else torch.float32
        self._policy = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        self._player = Player(task, self._tokenizer)
        self._said = {(one["instruction"], one["question"]): one["said"] for one in _lines(path)}
        self.seconds = 0.0

    def read(self, instruction: str, questions: Sequence[Question]) -> Sequence[str]:
        """Its answers."""
        fresh = [one for one in questions if (instruction, one.id) not in self._said]
        for start in range(0, len(fresh), _AT_ONCE):
            self._answer(instruction, fresh[start : start + _AT_ONCE])
        return [self._said[instruction, one.id] for one in questions]

    def _answer(self, instruction: str, questions: Sequence[Question]) -> None:
        began = time.process_time()
        candidate = Candidate.of(instruction)
        prompts = [self._task.render(self._player.prompt(one), candidate) for one in questions]
        episodes = play(
            [self._player.play(prompt) for prompt in prompts],
            self._sample,
            self._task.caller("validation"),
            greedy=True,
        )
        with self._path.open("a", encoding="utf-8") as file:
            for question, episode in zip(questions, episodes, strict=True):
                said = self._said[instruction, question.id] = episode.answer or ""
                row = {"instruction": instruction, "question": question.id, "said": said}
                file.write(json.dumps(row) + "\n")
        self.seconds += time.process_time() - began

    def _sample(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action]:
        contexts = [one.context for one in episodes]
        return generate(self._policy, self._tokenizer, contexts, sampling, GREEDY)


def _lines(path: Path) -> Iterator[dict[str, str]]:
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def interval(gains: Sequence[float]) -> str:
    """The mean with half the width of its 95 % interval."""
    half = t.ppf(0.975, len(gains) - 1) * stdev(gains) / len(gains) ** 0.5
    return f"{fmean(gains):+.3f} ± {half:.3f}"


def main() -> None:
    """Reads the command line and prints a row for every run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("answers", type=Path, help="file of the answers; made where missing")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--budget", type=int, default=300)
    parser.add_argument("--optimizers", nargs="*", default=list(OPTIMIZERS))
    parser.add_argument("--test", type=int, default=100, help="test questions")
    options = parser.parse_args()
    torch.set_num_threads(1)
    task = Reading(ReadingSettings(questions=options.questions, placement="user"))
    model = Model(options.model, task, options.answers)
    train, test = task.questions("train"), task.questions("test")[: options.test]
    validation = task.questions("validation")[:40]

    def rewards(text: str, questions: Sequence[Question]) -> list[float]:
        said = model.read(text, questions)
        return [f1(one, asked.answers) for one, asked in zip(said, questions, strict=True)]

    before = rewards(POOR, test)
    print(f"first instruction: {fmean(before):.3f} on {len(test)} test questions")
    good = [mine - first for mine, first in zip(rewards(GOOD, test), before, strict=True)]
    print(f"written by hand: {interval(good)} against it")
    print("| seed | optimizer | rollouts | validation | test | against the first | text |")
    print("|---|---|---|---|---|---|---|")
    for seed in range(options.first, options.first + options.seeds):
        learn = random.Random(f"train/{seed}").sample(train, 100)
        for name in options.optimizers:
            reader = Reader(model.read, BANK, task.diagnose, seed)
            found = OPTIMIZERS[name](reader, POOR, learn, validation, options.budget, seed)
            after = rewards(found.text, test)
            gains = [late - early for late, early in zip(after, before, strict=True)]
            print(
                f"| {seed} | {name} | {found.rollouts} | "
                f"{fmean(rewards(found.text, validation)):.3f} | {fmean(after):.3f} | "
                f"{interval(gains)} | {found.text} |",
                flush=True,
            )
    print(f"{model.seconds:.0f} CPU-seconds of the model")


if __name__ == "__main__":
    main()
