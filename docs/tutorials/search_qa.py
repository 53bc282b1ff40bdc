# %% [markdown]
# # Search-QA on two cores
#
# The experiment of the paper in miniature: a policy of 210,000 parameters answers questions of one to three hops with a
# search tool, while its instruction evolves. It needs no GPU, downloads nothing and takes two to five minutes. It ends
# with a policy that has learnt to search step by step, and with the instruction that brought it there.
#
# ```console
# pip install evoprompt evoprompt-retrieval evoprompt-tiny-policy evoprompt-search-qa matplotlib
# ```
#
# evoprompt is not published yet: until then, run
# `pip install -e . -e plugins/evoprompt-retrieval -e examples/tiny_policy -e examples/search_qa matplotlib` in a clone.

# %%
import json
from pathlib import Path
from textwrap import fill

import matplotlib.pyplot as plt

# %% [markdown]
# ## What it would do and cost
#
# A dry run checks every setting, and names what this machine lacks. `evoprompt demo` is `evoprompt run` with the
# configuration that comes with the package, [tiny.yaml](../../examples/search_qa/tiny.yaml); it takes the same options.

# %%
# !evoprompt demo --dry-run --arm coevolve --set budget=3200 --set evaluate_every=400 | tail -12

# %% [markdown]
# ## Run it
#
# One arm with 3,200 rollouts; without `--arm` and `--set` both arms get 8,000 each.

# %%
# !evoprompt demo --arm coevolve --set budget=3200 --set evaluate_every=400 --output tiny > log.txt
sorted(path.name for path in Path("tiny").iterdir())

# %% [markdown]
# ## What was learnt
#
# `report.html` draws everything. The events behind it are one JSON object a line: here the evaluations, and the moments at
# which a new instruction took the place of its parent.

# %%
lines = Path("tiny/trials/coevolve/seed-0/events.jsonl").read_text().splitlines()
events = [json.loads(line) for line in lines]
curve = [
    (event["rollouts"], event["value"])
    for event in events
    if event["event"] == "evaluated" and event["split"] == "validation"
]
summary = json.loads(Path("tiny/summary.json").read_text())
(trial,) = summary["arms"]["coevolve"]["seeds"]

figure, axes = plt.subplots(figsize=(7, 3))
axes.plot(*zip(*curve, strict=True), marker="o")
axes.set(
    xlabel="rollouts, verification included", ylabel="validation questions answered", ylim=(0, 1)
)
figure.tight_layout()

# %%
print(f"{curve[0][1]:.2f} of the validation questions before, {curve[-1][1]:.2f} at the end")
print(f"{trial['test']['value']:.2f} of the test questions, by hops:", trial["test"]["by_stratum"])

# %% [markdown]
# ## The instruction, before and after
#
# The policy was pretrained to follow sentences; the ones that ask it to search step by step are what the questions of two
# and three hops need.

# %%
first = next(event for event in events if event["event"] == "candidate_added")
# !evoprompt best tiny > best.txt
print("before:", first["components"]["instruction"])
print(fill("after: " + Path("best.txt").read_text(), 90))

# %% [markdown]
# One seed says that it can work. With five, [today's default](../results-tiny.md#the-default-of-today) ends above .97 on four
# and finds nothing on one, and a hand-written instruction needs [no training at
# all](../results-tiny.md#weights-and-instruction). `evoprompt eval tiny --set task.world=8` asks the trained policy about facts
# that no training saw. The same experiment with Qwen2.5 and Wikipedia is [search-QA at full size](../search-qa.md).
