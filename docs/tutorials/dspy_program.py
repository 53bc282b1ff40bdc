# %% [markdown]
# # A DSPy program
#
# `CoEvolve` is an optimizer of DSPy, called like any other: it improves the instructions of all predictors and the
# descriptions of all tools of a program. Here a server on this machine plays the language model, so that the notebook
# runs in seconds without a key; replace it by your `dspy.LM`, and the proposer by `lm="openai/gpt-5-mini"`.
#
# ```console
# pip install -e ".[lm]" -c constraints.txt
# ```

# %%
import re

import dspy

from evoprompt import CoEvolve, Proposal
from evoprompt.testing.openai_server import OpenAIServer, chat_fields

# %% [markdown]
# ## A program, its questions and its metric
#
# The metric is one that `dspy.GEPA` takes, too: a score, and feedback in words.

# %%
tickets = {
    "I was charged twice": "billing",
    "The invoice has a wrong address": "billing",
    "My payment did not go through": "billing",
    "The app closes when I open a file": "technical",
    "Synchronising takes forever": "technical",
    "I cannot log in any more": "technical",
}
examples = [
    dspy.Example(ticket=f"{text} ({day}).", label=label).with_inputs("ticket")
    for day in ("Monday", "Tuesday", "Friday")
    for text, label in tickets.items()
]


def metric(gold, pred, trace=None, pred_name=None, pred_trace=None):
    right = pred.label == gold.label
    feedback = "" if right else f"expected exactly '{gold.label}', got '{pred.label}'"
    return dspy.Prediction(score=float(right), feedback=feedback)


program = dspy.Predict(dspy.Signature("ticket -> label", "Sort the ticket."))

# %% [markdown]
# ## Stand-ins for two language models
#
# The one that answers writes whole sentences unless it is told not to. The one that writes instructions is a proposer
# with a single idea.


# %%
def answer(body):
    system, user = (message["content"] for message in body["messages"])
    money = re.search("charged|invoice|payment", user)
    label = "billing" if money else "technical"
    if "one lower-case word" not in system:
        label = f"This is a {label} problem."
    return chat_fields(label=label)


class Terse:
    def propose(self, request):
        parent = request.parents[0].candidate
        (name,) = parent.components
        text = f"{parent.components[name]} Answer with one lower-case word."
        return [Proposal({name: text}, (parent.id,), rationale="The metric wants the bare label.")]


# %%
optimizer = CoEvolve(metric, budget=100, proposer=Terse(), track_stats=True)
with OpenAIServer([], answer) as server:
    lm = dspy.LM("openai/gpt-4.1-nano", api_base=server.url, api_key="sk-test", cache=False)
    with dspy.context(lm=lm):
        better = optimizer.compile(program, trainset=examples[::2], valset=examples[1::2])
better.signature.instructions

# %%
found = better.detailed_results
for rollouts, value, _ in found.curve:
    print(f"{rollouts:4d} rollouts  {value:.2f}")
print(found.stopped)
better.save("better.json")

# %% [markdown]
# What evolves in a program of several predictors and tools, budgets, and what is taken over from `dspy.GEPA` is in
# [DSPy programs](../dspy.md). A stand-in shows how the parts fit together, not how much your program gains.
