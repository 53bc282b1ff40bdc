"""The policies of the two worlds: small, made as their scripts say, and heeding what is said."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import get_args

import evoprompt_calculator.bank
import evoprompt_calculator.pretrain
import evoprompt_calculator.task
import evoprompt_search_qa.bank
import evoprompt_search_qa.tiny.pretrain
import evoprompt_search_qa.tiny.task
import evoprompt_search_qa.tiny.vocabulary
import pytest
from evoprompt_calculator.task import Calculator, CalculatorSettings
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings
from evoprompt_tiny.demonstrations import MASKED
from evoprompt_tiny.instructions import compose
from evoprompt_tiny.pretrain import NOTE, Draw, Pretraining, Stage
from evoprompt_tiny.task import TinyTask
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from evoprompt.agents import play
from evoprompt.agents.tasks import EpisodeRunner
from evoprompt.proposers.bank import SentenceBank
from evoprompt.types import Candidate

MOST_BYTES = 2_000_000
"""Largest weights that a package ships."""


@dataclass(frozen=True)
class Shipped:
    """A policy, and what it was made of.

    ``digest`` is that of its vocabulary and demonstrations: with others the policy would have to be
    made anew.
    """

    task: TinyTask
    weights: Path
    bank: SentenceBank
    usual: str
    good: str
    build_tokenizer: Callable[[], PreTrainedTokenizerFast]
    build_draw: Callable[[PreTrainedTokenizerFast], Draw]
    digest: str
    settings: Pretraining = field(default_factory=Pretraining)


SHIPPED = {
    "calculator": Shipped(
        Calculator(CalculatorSettings(world=11, validation=80)),
        evoprompt_calculator.task.WEIGHTS,
        evoprompt_calculator.bank.BANK,
        compose(evoprompt_calculator.bank.BANK, evoprompt_calculator.bank.SEED_IDEAS),
        compose(evoprompt_calculator.bank.BANK, evoprompt_calculator.bank.GOOD_IDEAS),
        evoprompt_calculator.pretrain.tokenizer,
        evoprompt_calculator.pretrain.demonstrations,
        "a2047976435b7333",
    ),
    "search-qa": Shipped(
        SearchQa(SearchQaSettings(world=11, validation=80)),
        evoprompt_search_qa.tiny.task.SHIPPED_POLICY,
        evoprompt_search_qa.bank.BANK,
        compose(evoprompt_search_qa.bank.BANK, evoprompt_search_qa.bank.SEED_IDEAS),
        compose(evoprompt_search_qa.bank.BANK, evoprompt_search_qa.bank.GOOD_IDEAS),
        evoprompt_search_qa.tiny.vocabulary.build_tokenizer,
        evoprompt_search_qa.tiny.pretrain.demonstrations,
        "f292cc4070b11611",
        evoprompt_search_qa.tiny.pretrain.SETTINGS,
    ),
}


@pytest.fixture(scope="module", params=SHIPPED)
def shipped(request: pytest.FixtureRequest) -> Shipped:
    return SHIPPED[request.param]


@pytest.fixture(scope="module")
def words(shipped: Shipped) -> PreTrainedTokenizerFast:
    return shipped.build_tokenizer()


@pytest.fixture(scope="module")
def draw(shipped: Shipped, words: PreTrainedTokenizerFast) -> Draw:
    return shipped.build_draw(words)


def solved(shipped: Shipped, instruction: str) -> float:
    """Share of the validation questions that the policy solves greedily under an instruction."""
    policy = AutoModelForCausalLM.from_pretrained(shipped.weights)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(shipped.weights)
    task, told = shipped.task, Candidate.of(instruction)
    sampler = task.sampler(policy, tokenizer, 1.0)
    assert sampler is not None
    runner, questions = EpisodeRunner(task, tokenizer), task.questions("validation")
    plays = [runner.play(task.render(runner.prompt(question), told)) for question in questions]
    episodes = play(plays, sampler, task.caller("validation"), greedy=True)
    scores = [task.score(one, asked) for one, asked in zip(episodes, questions, strict=True)]
    return sum(score.reward for score in scores) / len(scores)


def test_it_is_small_and_made_by_the_settings_of_its_script(shipped: Shipped) -> None:
    note = json.loads((shipped.weights / NOTE).read_text(encoding="utf-8"))
    assert note["settings"] == asdict(shipped.settings)
    assert (shipped.weights / "model.safetensors").stat().st_size < MOST_BYTES


def test_it_comes_with_the_tokenizer_that_its_script_makes(
    shipped: Shipped, words: PreTrainedTokenizerFast
) -> None:
    own = AutoTokenizer.from_pretrained(shipped.weights)
    assert own.get_vocab() == words.get_vocab()
    assert own.chat_template == words.chat_template
    policy = AutoModelForCausalLM.from_pretrained(shipped.weights)
    assert policy.config.vocab_size == len(own)


def test_its_demonstrations_are_those_that_it_was_made_of(
    shipped: Shipped, words: PreTrainedTokenizerFast, draw: Draw
) -> None:
    rng, stages = random.Random(0), get_args(Stage)
    drawn = [draw(rng, stage) for _ in range(100) for stage in stages]
    said = repr((sorted(words.get_vocab().items()), [(one.ids, one.labels) for one in drawn]))
    assert hashlib.blake2b(said.encode(), digest_size=8).hexdigest() == shipped.digest


def test_it_knows_every_word_of_the_banks(shipped: Shipped, words: PreTrainedTokenizerFast) -> None:
    for text in (f" {text}" for wordings in shipped.bank.sentences.values() for text in wordings):
        tokens = words.encode(text)
        assert len(tokens) <= len(re.findall(r" ?[^\W\d]+|\d|\W", text)), text
        assert words.unk_token_id is None or words.unk_token_id not in tokens, text


def test_it_learns_what_the_demonstrator_wrote_and_no_result(
    words: PreTrainedTokenizerFast, draw: Draw
) -> None:
    rng = random.Random(1)
    for _ in range(50):
        made = draw(rng, "all")
        learned = [label for label in made.labels if label != MASKED]
        assert learned[-1] == words.eos_token_id
        said = str(words.decode(learned))
        assert "tool_response" not in said
        assert "information" not in said
        assert len(made.ids) < words.model_max_length
        assert words.encode(words.decode(made.ids)) == made.ids


def test_what_it_does_depends_on_the_instruction(shipped: Shipped) -> None:
    assert solved(shipped, shipped.usual) < 0.2
    assert solved(shipped, shipped.good) > 0.6
