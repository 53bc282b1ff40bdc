"""Makes the policy that is shipped: ``python -m evoprompt_sql.pretrain`` (minutes)."""

from __future__ import annotations

import random

from evoprompt_tiny.command import command
from evoprompt_tiny.demonstrations import Example, Scene, example
from evoprompt_tiny.instructions import Instructions
from evoprompt_tiny.pretrain import Draw, Stage
from evoprompt_tiny.vocabulary import build_tokenizer
from transformers import PreTrainedTokenizerFast

from evoprompt_sql.bank import BANK, CLOSING, OPENING, SEED_IDEAS
from evoprompt_sql.database import FIRST_NAMES, LAST_NAMES, PRODUCTS, YEARS
from evoprompt_sql.demonstrations import EFFECTS, STEP_IDEAS, demonstrate
from evoprompt_sql.questions import MEASURES, draw
from evoprompt_sql.shop import Shop
from evoprompt_sql.task import PRETRAINING_SHOPS, WEIGHTS, Sql, SqlSettings

_INSTRUCTIONS = Instructions(BANK, SEED_IDEAS, tuple(EFFECTS), STEP_IDEAS)
_TABLE_WEIGHTS = (0.25, 0.35, 0.4)


def tokenizer() -> PreTrainedTokenizerFast:
    """The words and the SQL of this world, one token each."""
    sentences = [f" {text}" for wordings in BANK.sentences.values() for text in wordings]
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
        script = demonstrate(question, ideas, rng, careful=stage != "all")
        prompt = [{"role": "user", "content": question.text}]
        return example(scene.play(_INSTRUCTIONS.write(ideas, rng), prompt, script))

    return drawn


if __name__ == "__main__":
    command(tokenizer(), demonstrations, WEIGHTS)
