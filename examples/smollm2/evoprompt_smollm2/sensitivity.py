"""How much an instruction moves an untrained model: a table, before anything is trained."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from evoprompt.agents import Action, Episode, Limits, Sampler, Sampling, play
from evoprompt.agents.tasks import Player, Task, scored
from evoprompt.errors import InputError
from evoprompt.storage import write_whole
from evoprompt.types import Candidate, Question

Row = dict[str, Any]
"""What was measured of one instruction: ``instruction``, ``mode``, ``seconds`` and ``episodes``."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What to measure.

    Attributes:
        instructions: to compare.
        split: whose questions.
        questions: how many of them, the first.
        samples: drawn of each question, besides the greedy answer.
        temperature: of the samples.
        at_once: episodes in one forward pass.
        seed: of the samples.
    """

    instructions: Sequence[str]
    split: str = "validation"
    questions: int = 60
    samples: int = 2
    temperature: float = 1.0
    at_once: int = 16
    seed: int = 0


def measure(
    task: Task,
    model: Path,
    dtype: str,
    what: Measurement,
    output: Path,
    on_row: Callable[[Row], None] = lambda row: None,
    limits: Limits | None = None,
) -> list[Row]:
    """A row for every instruction, greedy and sampled, each written to ``output`` when it is done.

    Rows that are in ``output`` already are not measured again.

    Args:
        task: whose questions to ask, with its tools.
        model: folder of a causal language model.
        dtype: of its weights.
        what: what to measure.
        output: file of a JSON object a line.
        on_row: is told of every row that is new.
        limits: what an episode may use; those of the task if not given.

    Raises:
        InputError: the model cannot play the task.
    """
    import torch
    from transformers import AutoModelForCausalLM

    from evoprompt.experiments.hosts.trl.generation import GREEDY, generate, load_tokenizer

    done = {(row["instruction"], row["mode"]): row for row in read(output)}
    write_whole(output, "".join(json.dumps(row) + "\n" for row in done.values()))
    tokenizer = load_tokenizer(str(model))
    player = Player(task, tokenizer, limits)
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
    policy.to("cuda" if torch.cuda.is_available() else "cpu")  # type: ignore[arg-type]

    def sampler(choice: Mapping[str, object]) -> Sampler:
        def sample(
            episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
        ) -> list[Action]:
            # By length, so that little is padding.
            order = sorted(range(len(episodes)), key=lambda at: len(episodes[at].context))
            actions: dict[int, Action] = {}
            for start in range(0, len(order), what.at_once):
                chunk = order[start : start + what.at_once]
                contexts = [episodes[at].context for at in chunk]
                found = generate(policy, tokenizer, contexts, sampling, choice)
                actions.update(zip(chunk, found, strict=True))
            return [actions[at] for at in range(len(episodes))]

        return sample

    questions = list(task.questions(what.split))[: what.questions]
    drawn = {"do_sample": True, "top_k": 0, "temperature": what.temperature}
    modes = {"greedy": (GREEDY, 1), f"sampled at {what.temperature:g}": (drawn, what.samples)}
    found = []
    for instruction in what.instructions:
        for mode, (choice, times) in modes.items():
            row = done.get((instruction, mode))
            if row is None and times:
                torch.manual_seed(what.seed)
                began = time.process_time()
                asked = [one for one in questions for _ in range(times)]
                candidate = Candidate.of(instruction)
                prompts = [task.render(player.prompt(one), candidate) for one in asked]
                episodes = play(
                    [player.play(prompt) for prompt in prompts],
                    sampler(choice),
                    task.caller(what.split),
                    greedy=mode == "greedy",
                )
                row = {
                    "instruction": instruction,
                    "mode": mode,
                    "seconds": time.process_time() - began,
                    "episodes": list(map(_told, [task] * len(asked), episodes, asked)),
                }
                with output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                on_row(row)
            if row is not None:
                found.append(row)
    return found


def read(output: Path) -> Iterator[Row]:
    """The rows in a file; a last line that a kill cut short is left out."""
    if output.is_file():
        for line in output.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def table(rows: Sequence[Row]) -> str:
    """A markdown table: reward with its standard error, metrics, and the spread within questions.

    Raises:
        InputError: there are no rows.
    """
    if not rows:
        raise InputError("nothing was measured; required: at least one instruction")
    names = sorted({name for row in rows for one in row["episodes"] for name in one["metrics"]})
    head = ["instruction", "mode", "reward", "± s.e.", "spread", *names, "CPU-s"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        episodes = row["episodes"]
        metrics = [f"{fmean(one['metrics'][name] for one in episodes):.2f}" for name in names]
        cells = [row["instruction"].replace("|", "\\|"), row["mode"], *_summary(episodes)]
        lines.append("| " + " | ".join([*cells, *metrics, f"{row['seconds']:.0f}"]) + " |")
    return "\n".join(lines)


def _summary(episodes: Sequence[Row]) -> list[str]:
    """The mean over questions, its standard error, and the share whose samples differ in reward."""
    by_question: dict[str, list[float]] = {}
    for one in episodes:
        by_question.setdefault(one["question"], []).append(one["reward"])
    means = [fmean(rewards) for rewards in by_question.values()]
    error = stdev(means) / len(means) ** 0.5 if len(means) > 1 else 0.0
    several = any(len(rewards) > 1 for rewards in by_question.values())
    differ = fmean(len(set(rewards)) > 1 for rewards in by_question.values())
    return [f"{fmean(means):.3f}", f"{error:.3f}", f"{differ:.2f}" if several else ""]


def _told(task: Task, episode: Episode, question: Question) -> Row:
    score = scored(task, episode, question)
    if score is None:
        raise InputError(f"question {question.id!r}: {episode.error}; required: tools that answer")
    said = [turn.action for turn in episode.turns]
    metrics = dict(score.metrics)
    return {"question": question.id, "reward": score.reward, "metrics": metrics, "said": said}
