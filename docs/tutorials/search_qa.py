# %% [markdown]
# # Search-QA on two cores
#
# The experiment of the paper in miniature: a policy of 210,000 parameters answers questions of one to three hops with a
# search tool, under one fixed instruction and with instructions that evolve. It needs no GPU and downloads nothing.
# `--smoke` makes it short enough for this page, far too short to learn anything; without it the two arms take a few
# minutes and end as [the results](../results-tiny.md) say.
#
# ```console
# pip install -e . -e plugins/evoprompt-retrieval -e examples/tiny_policy -e examples/search_qa -c constraints.txt
# ```

# %%
import json
from collections import Counter
from pathlib import Path

# %% [markdown]
# ## What it would do and cost
#
# A dry run checks every setting, and names what this machine lacks.

# %%
# !evoprompt demo --dry-run --smoke --arm coevolve | tail -12

# %% [markdown]
# ## Run it
#
# `evoprompt demo` is `evoprompt run` with the configuration that comes with the package,
# [tiny.yaml](../../examples/search_qa/tiny.yaml); it takes the same options.

# %%
# !evoprompt demo --smoke --arm coevolve --output tiny > log.txt
sorted(path.name for path in Path("tiny").iterdir())

# %% [markdown]
# ## Look at it
#
# `report.html` holds everything in one file. The same events are one JSON object a line:

# %%
events = [
    json.loads(line)
    for line in Path("tiny/trials/coevolve/seed-0/events.jsonl").read_text().splitlines()
]
Counter(event["event"] for event in events)

# %%
refused = [event for event in events if event["event"] == "proposed"]
print(json.dumps(refused[0], indent=1)[:900])

# %%
summary = json.loads(Path("tiny/summary.json").read_text())
(trial,) = summary["arms"]["coevolve"]["seeds"]
trial["test"]["value"], trial["test"]["by_stratum"], trial["rollouts"]

# %% [markdown]
# ## Take the instruction with you

# %%
# !evoprompt best tiny

# %% [markdown]
# `evoprompt eval tiny --set task.world=8` asks the trained policy under it about facts that no training saw, and
# `evoprompt run tiny --resume` goes on where a run was stopped. The same experiment with Qwen2.5 and Wikipedia is in
# [Search-QA at full size](../search-qa.md).
