"""What a package tests of the tiny policy that it ships."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from evoprompt.agents import play
from evoprompt.agents.tasks import EpisodeRunner
from evoprompt.bank import SentenceBank
from evoprompt.testing.suite import expect
from evoprompt.types import Candidate, Written
from evoprompt_tiny.demonstrations import MASKED
from evoprompt_tiny.pretrain import NOTE, Draw, Pretraining, Stage
from evoprompt_tiny.task import NumberTask
from evoprompt_tiny.template import END

MOST_BYTES = 2_000_000
"""Largest weights that a package ships."""


def solved(task: NumberTask, weights: Path, written: Written) -> float:
    """Share of the validation questions that a policy solves greedily under what a candidate is."""
    torch.set_num_threads(1)
    policy = AutoModelForCausalLM.from_pretrained(weights)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(weights)
    sampler = task.sampler(policy, tokenizer, 1.0)
    assert sampler is not None
    player, told = EpisodeRunner(task, tokenizer), Candidate.of(written)
    questions = task.questions("validation")
    plays = [player.play(task.render(player.prompt(one), told)) for one in questions]
    episodes = play(plays, sampler, task.caller("validation"), greedy=True)
    scores = [task.score(one, asked) for one, asked in zip(episodes, questions, strict=True)]
    return sum(score.reward for score in scores) / len(scores)


def strata_after_a_smoke_under_verl(recipe: Path, output: Path) -> set[str]:
    """Trains a recipe for 160 rollouts under veRL on a CPU; the strata of its test questions."""
    command = [sys.executable, "-m", "evoprompt", "run", str(recipe), "--smoke"]
    command += ["--arm", "coevolve", "--output", str(output), "--set", "budget=160"]
    command += ["--set", "host.name=verl-cpu"]
    done = subprocess.run(
        command,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    expect(done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:])
    summary = json.loads((output / "summary.json").read_text(encoding="utf-8"))
    (trial,) = summary["arms"]["coevolve"]["seeds"]
    expect(trial["rollouts"] >= 160, f"{trial['rollouts']} rollouts; required: 160")
    return set(trial["test"]["by_stratum"])


def digest_of(tokenizer: PreTrainedTokenizerFast, draw: Draw) -> str:
    """Tells a vocabulary and its first 300 demonstrations from others."""
    rng = random.Random(0)
    stages: tuple[Stage, ...] = ("plain", "careful", "all")
    drawn = [draw(rng, stage) for _ in range(100) for stage in stages]
    said = repr((sorted(tokenizer.get_vocab().items()), [(one.ids, one.labels) for one in drawn]))
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


class PolicySuite(ABC):
    """What every shipped policy must keep; subclass it in a package's tests.

    Attributes:
        weights: folder of the policy.
        banks: of all sentences that it may read.
        digest: of the vocabulary and the first demonstrations, on which the policy was trained:
            with others it would have to be made anew.
    """

    weights: Path
    banks: Sequence[SentenceBank]
    digest: str

    @abstractmethod
    def build_tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer that the package makes."""

    @abstractmethod
    def build_draw(self, tokenizer: PreTrainedTokenizerFast) -> Draw:
        """What draws its demonstrations."""

    @cached_property
    def words(self) -> PreTrainedTokenizerFast:
        """The tokenizer that the package makes, once."""
        return self.build_tokenizer()

    def test_is_small_and_made_by_the_default_settings(self) -> None:
        note = json.loads((self.weights / NOTE).read_text(encoding="utf-8"))
        expect(note["settings"] == asdict(Pretraining()), f"made by {note['settings']}")
        size = (self.weights / "model.safetensors").stat().st_size
        expect(size < MOST_BYTES, f"the weights have {size} bytes; required: under {MOST_BYTES}")

    def test_comes_with_the_tokenizer_that_the_package_makes(self) -> None:
        shipped = AutoTokenizer.from_pretrained(self.weights)
        policy = AutoModelForCausalLM.from_pretrained(self.weights)
        expect(shipped.get_vocab() == self.words.get_vocab(), "another vocabulary is shipped")
        expect(shipped.chat_template == self.words.chat_template, "another template is shipped")
        expect(policy.config.vocab_size == len(shipped), "the policy has another vocabulary")

    def test_is_shown_what_it_was_trained_on(self) -> None:
        found = digest_of(self.words, self.build_draw(self.words))
        expect(found == self.digest, f"the demonstrations have the digest {found} now")

    def test_knows_every_word_of_the_banks(self) -> None:
        for bank in self.banks:
            for text in (text for wordings in bank.sentences.values() for text in wordings):
                tokens = self.words.encode(f" {text}")
                pieces = [str(self.words.decode([token])) for token in tokens]
                spelled = [one for one in pieces if len(one) < 2 and one not in " .,:-0123456789"]
                expect(not spelled, f"{text!r} has words that no token stands for")

    def test_learned_what_the_demonstrator_wrote(self) -> None:
        draw, rng = self.build_draw(self.words), random.Random(0)
        for _ in range(50):
            made = draw(rng, "all")
            learned = str(self.words.decode([label for label in made.labels if label != MASKED]))
            expect(learned.endswith(END), f"what is learned ends unfinished: {learned!r}")
            expect("tool_response" not in learned, f"a result is learned: {learned!r}")
            expect(len(made.ids) < self.words.model_max_length, f"{len(made.ids)} tokens")
            again = self.words.encode(self.words.decode(made.ids))
            expect(again == made.ids, "what is shown comes back as other tokens")
