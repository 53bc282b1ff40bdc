# %% [markdown]
# # A tool of your own
#
# A task is a tool, questions, and the reward of an answer. This notebook writes one, checks it, runs a model on it and
# improves the model's instruction. The model is a script behind a server on this machine, so that everything runs in
# seconds without a key; give `Endpoint` the name of your model in its place.
#
# ```console
# pip install -e ".[endpoint]" matplotlib
# ```
#
# The command runs in a clone, as evoprompt is not published yet.

# %%
import re

import matplotlib.pyplot as plt

import evoprompt
from evoprompt import InputError, Question, Task
from evoprompt.agents.tasks import Score
from evoprompt.experiments.testing import TaskSuite
from evoprompt.optimizer.endpoint import Endpoint, TaskAgent
from evoprompt.proposers.bank import SentenceBank
from evoprompt.proposers.sentences import SentenceEdit
from evoprompt.testing import OpenAIServer, run
from evoprompt.testing.openai_server import Calls

# %% [markdown]
# ## The tool
#
# A tool is a function with types and a docstring, which the model reads. An exception does not end an episode: the
# model reads its text and may try again, so name the fault and the requirement.

# %%
SHELVES = {
    f"M{size}x{length}": 7 * size + length for size in range(2, 9) for length in range(10, 60, 5)
}


def stock(article: str) -> int:
    """Count the screws of an article, such as M4x20: diameter, x, length."""
    if article not in SHELVES:
        raise ValueError(f"no article {article!r}; required: a name such as M4x20")
    return SHELVES[article]


# %% [markdown]
# ## The task
#
# `questions` must have the splits `train`, `validation` and `test`, and no question in two of them. `score` reads an
# episode: the final answer, and the turns before it. A proposer learns from the feedback beside the reward.
#
# `bank` and `diagnose` are for proposers without a language model: sentences by the idea they express, and which ideas
# are remedies of which failure. Leave both out if a language model writes your instructions.

# %%
SPLITS = {"train": slice(0, 30), "validation": slice(30, 50), "test": slice(50, 70)}
NAMES = sorted(SHELVES, key=lambda name: name[::-1])  # no split has one diameter only


class Stock(Task):
    seed_instructions = ("Answer the question.",)
    tools = (stock,)
    bank = SentenceBank(
        {
            "look": ("Look every article up in the stock.", "Ask the stock before you answer."),
            "form": ("Write article names without spaces.", "An article is named like M4x20."),
            "brief": ("Answer with the number alone.", "Write nothing but the number."),
            "polite": ("Be polite.", "Thank the customer."),
        },
        fixed=seed_instructions,
        remedies={"no call": ["look"], "bad name": ["form"], "wordy": ["brief"]},
    )

    def questions(self, split):
        if split not in SPLITS:
            raise InputError(f"split is {split!r}; required: one of {', '.join(SPLITS)}")
        return [
            Question(
                name, f"How many screws {name.replace('x', ' x ')} have we?", (str(SHELVES[name]),)
            )
            for name in NAMES[SPLITS[split]]
        ]

    def score(self, episode, question):
        answer, expected = (episode.answer or "").strip(), question.answers[0]
        if answer == expected:
            return Score(1.0)
        if not episode.tool_calls:
            return Score(0.0, "answered without looking at the stock")
        if expected in answer.split():
            return Score(0.6, f"expected {expected} and nothing else, got {answer!r}")
        return Score(0.3, f"looked, but expected {expected}, got {answer!r}")

    def diagnose(self, trajectory):
        if "without" in trajectory.feedback:
            return ["no call"]
        return ["wordy"] if "nothing else" in trajectory.feedback else ["bad name"]


# %% [markdown]
# The conformance suite checks every task. In a package it is a class of your tests, and
# `evoprompt plugins --check NAME` runs it, too.


# %%
class StockSuite(TaskSuite):
    def build(self):
        return Stock()


for result in run(StockSuite()):
    print("ok  " if result.passed else "FAIL", result.name, result.detail)

# %% [markdown]
# ## A model for it
#
# `TaskAgent` is the agent of a task: it shows the model the instruction and the tools, runs what the model calls and
# returns the episode. `Endpoint` is the model. Here a script answers in its place. It guesses unless the instruction says to look;
# it copies the article as the question writes it unless the instruction says how names are written; and it talks.


# %%
def answer(request):
    instruction, question = (message["content"] for message in request["messages"][:2])
    last = request["messages"][-1]
    if last["role"] == "tool":
        number = last["content"] if last["content"].isdigit() else "perhaps 100"
        is_brief = "number alone" in instruction or "nothing but the number" in instruction
        return number if is_brief else f"We have {number} of them."
    if not re.search("stock", instruction):
        return "We should have about 100."
    article = re.search(r"M\d+ x \d+", question)[0]
    if "M4x20" in instruction or "without spaces" in instruction:
        article = article.replace(" ", "")
    return Calls([("stock", f'{{"article": "{article}"}}')])


def agent_of(server):
    return TaskAgent(Stock(), Endpoint("scripted", server.url))  # Endpoint("openai:gpt-4.1-nano")


# %% [markdown]
# This is one episode, under an instruction that is not sufficient yet. The texts of model and tools stand in the tags
# of a chat template, with any server:

# %%
with OpenAIServer([], answer) as server:
    agent = agent_of(server)
    question = agent.validation[0]
    episode = await agent("Look every article up in the stock.", question)
for turn in episode.turns:
    print("action:     ", turn.action)
    print("observation:", turn.observation.rstrip() or "none, this was the answer")

# %%
score = agent.metric(question, episode)
score.reward, score.feedback

# %% [markdown]
# ## Improve the instruction
#
# The proposer edits sentences of the bank where the failures point. `lm="openai/gpt-5-mini"` in its place makes a
# language model read the same failures and write freely. The validation questions choose the instruction, so they
# flatter it; the test questions do not.

# %%
task = Stock()
with OpenAIServer([], answer) as server:
    agent = agent_of(server)
    result = evoprompt.optimize(
        agent.seed,
        agent.train,
        agent.metric,
        program=agent,
        valset=agent.validation,
        proposer=SentenceEdit(task.bank, task.diagnose),
        budget=600,
    )
    texts = (task.seed_instructions[0], result.best.text)
    tested = [agent.evaluate(text, "test", task.questions("test"))[0].value for text in texts]

for rollouts, value, text in result.curve:
    print(f"{rollouts:4d} rollouts  {value:.2f}  {text}")
print(result.stopped)

# %%
figure, axes = plt.subplots(figsize=(7, 3))
rollouts, values, _ = zip(*result.curve, strict=True)
axes.step(rollouts, values, where="post", marker="o")
axes.set(xlabel="episodes played", ylabel="mean reward, validation", ylim=(0, 1.05))
figure.tight_layout()

# %%
for text, value in zip(texts, tested, strict=True):
    print(f"{value:.2f} of the test questions: {text}")

# %% [markdown]
# ## What to read next
#
# - `evoprompt new task NAME` writes such a task as a package with tests, and [Tasks](../tasks.md) lists all members of a
#   task. Installed, it has a name: `evoprompt optimize NAME --model openai:gpt-4.1-nano`.
# - The same class is trained without a change: `evoprompt run` with a model of your own, under TRL or veRL; see
#   [Run, compare, resume](../running.md).
# - [Agents and tools](../agents.md) explains how a model's text becomes a call, and how to change that.
# - Budgets in requests, tokens and USD: [Tune the prompt of a frozen model](../frozen.md).
