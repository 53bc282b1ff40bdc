"""CPU seconds of the rollouts of a step of the paper's size, under veRL and under TRL.

    python benchmarks/step.py FOLDER PASSAGES.jsonl

FOLDER holds a tokenizer and a config.json, PASSAGES a JSON object a line with ``title`` and
``text``. 512 questions have five rollouts each, of four actions. Actions are made beforehand, and a
search draws three passages at random; what remains is what evoprompt does in veRL's agent loop
workers, all eight together, and in TRL's process, the scores included.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from evoprompt_retrieval.client import RetrievalClient
from evoprompt_search_qa.open.questions import SOURCE
from hydra import compose, initialize_config_module
from pydantic import JsonValue
from transformers import AutoTokenizer

from evoprompt.agents import Action, Episode, Sampling, play
from evoprompt.agents.tasks import EpisodeRunner, Task, scored
from evoprompt.experiments.hosts.verl.rows import rows
from evoprompt.plugins import build
from evoprompt.types import Candidate, Question

QUESTIONS, ROLLOUTS, WORKERS, SEARCHES = 512, 5, 8, 3
THOUGHT = "<think> The passages name the town and not yet the year; one more look is due. </think>"


def actions_of(tokenizer: Any) -> list[list[int]]:
    """Three searches and an answer, each of some 60 tokens."""
    texts = [
        f"{THOUGHT} {THOUGHT} <search> who founded town {n} </search>" for n in range(SEARCHES)
    ]
    texts.append(f"{THOUGHT} {THOUGHT} <answer> Ulm </answer>")
    return [tokenizer.encode(text, add_special_tokens=False) for text in texts]


def by_verl(
    folder: str, task: Task, section: dict[str, JsonValue], questions: list[Question]
) -> float:
    """CPU seconds of the agent loops; each of eight workers has its episodes side by side."""
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap
    from verl.utils.dataset.rl_dataset import RLHFDataset
    from verl.workers.rollout.replica import TokenOutput

    from evoprompt.experiments.hosts.verl.loop import TaskLoop

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    actions, seed = actions_of(tokenizer), Candidate.of(task.seeds[0])
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", [f"actor_rollout_ref.model.path={folder}"])

    class Replica:
        count = 0

        async def generate(self, **_: Any) -> TokenOutput:
            ids = actions[self.count]
            self.count += 1
            return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed")

    async def episode(row: dict[str, Any]) -> None:
        loop = TaskLoop(
            trainer_config=DictConfigWrap(config),
            server_manager=Replica(),
            tokenizer=tokenizer,
            processor=None,
            dataset_cls=RLHFDataset,
            data_config=DictConfigWrap(config.data),
            task=section,
        )
        await loop.run({"temperature": 1.0, "top_p": 1.0}, **row)

    async def worker(mine: Sequence[dict[str, Any]]) -> None:
        await asyncio.gather(*map(episode, mine))

    prompts = [
        task.render([{"role": "user", "content": question.text}], seed) for question in questions
    ]
    pairs = zip(rows(questions, "train", "evoprompt", "x"), prompts, strict=True)
    prompt_rows = [{**row, "raw_prompt": prompt} for row, prompt in pairs]
    asyncio.run(worker(prompt_rows[:2]))  # what is made once
    started = time.process_time()
    for number in range(WORKERS):
        asyncio.run(worker(prompt_rows[number::WORKERS]))
    return time.process_time() - started


def by_trl(folder: str, task: Task, all_questions: list[Question]) -> float:
    """CPU seconds of all rollouts in one process."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    actions, seed = actions_of(tokenizer), Candidate.of(task.seeds[0])
    runner = EpisodeRunner(task, tokenizer)

    def sample(episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool) -> list[Action]:
        token_ids = [actions[len(episode.turns)] for episode in episodes]
        return [Action(ids, [-0.5] * len(ids)) for ids in token_ids]

    def step(questions: Sequence[Question]) -> None:
        plays = [runner.play(task.render(runner.prompt(question), seed)) for question in questions]
        episodes = play(plays, sample, task.caller("train"))
        for episode, question in zip(episodes, questions, strict=True):
            scored(task, episode, question)

    step(all_questions[:2])
    started = time.process_time()
    step(all_questions)
    return time.process_time() - started


def main(
    folder: Annotated[str, typer.Argument(help="Of a tokenizer.")],
    passages: Annotated[Path, typer.Argument(help="One JSON object a line.")],
) -> None:
    """Print CPU seconds as rows of a markdown table."""
    with passages.open(encoding="utf-8") as file:
        passages_read = [json.loads(line) for line in islice(file, 2000)]
    texts = [f'"{passage["title"]}"\n{passage["text"]}' for passage in passages_read]
    rng = random.Random(0)

    async def search(client: RetrievalClient, query: str) -> list[str]:
        return rng.sample(texts, 3)

    RetrievalClient.search = search  # type: ignore[method-assign,assignment]
    files: dict[str, JsonValue] = dict.fromkeys(("train", "validation", "test"), "none.parquet")
    section: dict[str, JsonValue] = {"name": "search-qa-open", "model": folder, **files}
    task: Task = build("task", section)
    questions = [
        Question(f"q{n}", f"In which year was town {n} founded?", ("Ulm",), {SOURCE: "nq"})
        for n in range(QUESTIONS)
        for _ in range(ROLLOUTS)
    ]
    print(f"| veRL's agent loops | {by_verl(folder, task, section, questions):.1f} |")
    print(f"| TRL's rollouts | {by_trl(folder, task, questions):.1f} |")


if __name__ == "__main__":
    typer.run(main)
