# %% [markdown]
# # A proposer of your own
#
# A proposer writes new instructions. This notebook makes one a package, so that it has a name in every configuration:
# two files, an installation, the conformance suite, and an optimization that uses it. Selectors, verifiers, tasks and
# all other roles become plugins in the same way.
#
# ```console
# pip install -e . matplotlib
# ```
#
# The command runs in a clone, as evoprompt is not published yet.

# %%
from pathlib import Path

import matplotlib.pyplot as plt

package = Path("evoprompt-rulebook")

# %% [markdown]
# ## The package
#
# The entry point in the group `evoprompt` makes a distribution a plugin.

# %%
project = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "evoprompt-rulebook"
version = "0.1.0"
dependencies = ["evoprompt"]

[project.entry-points.evoprompt]
rulebook = "evoprompt_rulebook"
"""

# %% [markdown]
# ## The proposer
#
# It inherits `Proposer` and has a method `propose`. The request holds the parents, best first, their failures with the
# feedback of the metric, the number of texts, and a generator; with another source of randomness no run
# could be repeated. This one has a book of rules: where the feedback of a failure contains a word, a sentence helps.
#
# Settings are a model of pydantic's. `extra="forbid"` refuses a misspelt one before anything is spent.

# %%
module = '''\
"""Proposer that adds the sentence that a book of rules has for the feedback of a failure."""

from pydantic import BaseModel, Field

from evoprompt import Component, Proposal, ProposalRequest, Proposer, hookimpl


class Rulebook(Proposer):
    """Proposer with a rule for each kind of failure."""

    class Settings(BaseModel, extra="forbid"):
        """Rules: a word of the feedback, and the sentence that helps."""

        rules: dict[str, str] = Field(
            default={
                "nothing else": "Answer with the number alone.",
                "wrong": "Work step by step.",
            },
            min_length=1,
        )

    def __init__(self, rules: dict[str, str]) -> None:
        self.rules = rules

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        parent = request.parents[0].candidate
        feedback = " ".join(failure.feedback for failure in request.failures)
        fitting = [text for word, text in self.rules.items() if word in feedback]
        new = [text for text in fitting or self.rules.values() if text not in parent.text]
        drawn = request.rng.sample(new, min(request.count, len(new)))
        return [Proposal.of(f"{parent.text} {text}", parent, rationale=text) for text in drawn]


@hookimpl
def evoprompt_components() -> list[type[Component]]:
    return [Rulebook]
'''

# %% [markdown]
# ## Install it and check it
#
# `evoprompt plugins` lists it beside the built-in components. The conformance suite of its role checks every proposer:
# it repeats itself with the same generator, does not change its arguments, accepts a request without
# failures, and more. With `pip install -e` you can continue to edit it.

# %%
package.mkdir(exist_ok=True)
for name, text in {"pyproject.toml": project, "evoprompt_rulebook.py": module}.items():
    (package / name).write_text(text)

# %%
# !pip install --quiet ./evoprompt-rulebook

# %%
# !evoprompt plugins | grep -A 1 rulebook

# %%
# !evoprompt plugins --check rulebook

# %% [markdown]
# ## Use it
#
# From now on `rulebook` is a name like any other. The program is a stand-in for your model: it shows off, and is
# careless with large numbers, unless the instruction forbids it.

# %%
import evoprompt
from evoprompt.log.evaluation import Score

examples = [
    {"question": f"Add {a} and {b}.", "answer": f"{a + b}"}
    for a in range(5, 60, 5)
    for b in (4, 47, 95)
]


def program(instruction, example):
    answer = example["answer"]
    if len(answer) > 2 and "step by step" not in instruction:
        answer = f"{int(answer) - 100}"
    return answer if "number alone" in instruction else f"The sum is {answer}, of course!"


def metric(example, output):
    if output == example["answer"]:
        return Score(1.0)
    if example["answer"] in output.replace(",", "").split():
        return Score(0.5, f"expected {example['answer']} and nothing else, got: {output}")
    return Score(0.0, f"wrong: expected {example['answer']}, got: {output}")


result = evoprompt.optimize(
    "Answer the question.",
    examples[::2],
    metric,
    program=program,
    valset=examples[1::2],
    proposer="rulebook",
    budget=300,
)
for rollouts, value, text in result.curve:
    print(f"{rollouts:4d} rollouts  {value:.2f}  {text}")

# %%
figure, axes = plt.subplots(figsize=(7, 3))
rollouts, values, _ = zip(*result.curve, strict=True)
axes.step(rollouts, values, where="post", marker="o")
axes.set(xlabel="rollouts", ylabel="mean reward, validation", ylim=(0, 1.05))
figure.tight_layout()

# %% [markdown]
# With other settings it is built by name, as a configuration builds it, and passed as an object. An unknown setting
# is refused:

# %%
from evoprompt.plugins import build
from evoprompt.support.errors import EvopromptError

brief = build("proposer", {"name": "rulebook", "rules": {"nothing else": "Be brief."}})
brief.rules

# %%
try:
    build("proposer", {"name": "rulebook", "rule": {}})
except EvopromptError as error:
    print(error)

# %% [markdown]
# Beside a training it reads in YAML:
#
# ```yaml
# engine:
#   proposer: {name: rulebook, rules: {"nothing else": "Answer with the number alone."}}
# ```
#
# ## What to read next
#
# - [Plugins](../plugins.md): all roles and hooks with their contracts, testing with pytest, and faulty
#   plugins.
# - [Proposers and their budget](../proposers.md): those that are built in, from editing sentences to a language model
#   that reflects, and how to mix them.
# - [Tests for plugins](../api/testing.md): `ProposerSuite` as a class of your own tests.
