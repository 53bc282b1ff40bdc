"""Makes the policy that is shipped: ``python -m evoprompt_sql.pretrain`` (minutes)."""

from __future__ import annotations

import random

from evoprompt_tiny.command import command
from evoprompt_tiny.demonstrations import Example, Scene, example
from evoprompt_tiny.instructions import Instructions
from evoprompt_tiny.pretrain import Draw, Stage
from evoprompt_tiny.vocabulary import build_tokenizer
from transformers import PreTrainedTokenizerFast

from evoprompt.types import INSTRUCTION
from evoprompt_sql.bank import ABOUT_TOOL, BANK, CLOSING, DESCRIPTION_BANK, OPENING, SEED_IDEAS
from evoprompt_sql.database import FIRST_NAMES, LAST_NAMES, PRODUCTS, YEARS
from evoprompt_sql.demonstrations import (
    DESCRIPTION_EFFECTS,
    EFFECTS,
    STEP_IDEAS,
    demonstrate,
)
from evoprompt_sql.questions import MEASURES, draw
from evoprompt_sql.shop import Shop
from evoprompt_sql.task import PRETRAINING_SHOPS, WEIGHTS, Sql, SqlSettings

_IDLE = [idea for idea in BANK.sentences if idea not in EFFECTS]
_INSTRUCTIONS = Instructions(BANK, SEED_IDEAS, tuple(EFFECTS), STEP_IDEAS, _IDLE)
_TABLE_WEIGHTS = (0.25, 0.35, 0.4)
_OTHER_DESCRIPTION = 0.6  # share of demonstrations with another description than the usual one
_SAID = 0.5  # chance of each idea that matters to be in it


def tokenizer() -> PreTrainedTokenizerFast:
    """The words and the SQL of this world, one token each."""
    sentences = [f" {text}" for wordings in BANK.sentences.values() for text in wordings]
    sentences += [f" {text}" for wordings in ABOUT_TOOL.values() for text in wordings]
    questions = [
        " How many orders pieces of product number from customer number in are there",
        "query(sql)",
        f" {Shop.query.__doc__}",
        "The answer is",
        "product",
        "customer",
    ]
    names = [f"{before}{name}" for name in PRODUCTS for before in (" ", "")]
    names += [text for name in FIRST_NAMES for text in (f" {name}", name)]
    names += [f" {name}" for name in LAST_NAMES]
    phrases = [
        *(OPENING, CLOSING, CLOSING.replace("}", "", 1)),
        *(f"SELECT {measure} FROM orders WHERE " for measure in MEASURES.values()),
        *(f"SELECT id FROM {table} WHERE name = '" for table in ("customers", "products")),
        *("product_id = ", "customer_id = ", "year = ", "product = '", "customer = '"),
        *(" AND ", "'", "no rows", "None", "Error: OperationalError: no such column: "),
        *(str(year) for year in YEARS),
    ]
    return build_tokenizer([*sentences, *questions, *names], phrases)


def demonstrations(tokenizer: PreTrainedTokenizerFast) -> Draw:
    """Draws demonstrations in shops of their own."""
    tasks = [Sql(SqlSettings.model_construct(shop=shop)) for shop in PRETRAINING_SHOPS]
    scenes = [(task, Scene(task, tokenizer, "train")) for task in tasks]

    def drawn(rng: random.Random, stage: Stage) -> Example:
        task, scene = rng.choice(scenes)
        plain = stage == "plain"
        tables = 1 if plain else rng.choices((1, 2, 3), _TABLE_WEIGHTS)[0]
        question = draw(rng, task.shop.query, tables)
        ideas = ["number-only"] if plain else _INSTRUCTIONS.draw(rng)
        described = [] if plain else _description(rng)
        script = demonstrate(question, ideas, rng, description=described, careful=stage != "all")
        written = {INSTRUCTION: _INSTRUCTIONS.write(ideas, rng)}
        if described:
            written[DESCRIPTION_BANK.component] = " ".join(
                rng.choice(list(ABOUT_TOOL[idea])) for idea in described
            )
        prompt = [{"role": "user", "content": question.text}]
        return example(scene.play(written, prompt, script))

    return drawn


def _description(rng: random.Random) -> list[str]:
    """The ideas of a random description of the tool; none for the usual one."""
    if rng.random() >= _OTHER_DESCRIPTION:
        return []
    idle = [idea for idea in ABOUT_TOOL if idea not in DESCRIPTION_EFFECTS]
    ideas = [idea for idea in DESCRIPTION_EFFECTS if rng.random() < _SAID]
    ideas += rng.sample(idle, rng.choice((0, 1, 2, 3) if ideas else (1, 2, 3)))
    rng.shuffle(ideas)
    return ideas


if __name__ == "__main__":
    command(tokenizer(), demonstrations, WEIGHTS)
