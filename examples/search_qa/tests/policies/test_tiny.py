from __future__ import annotations

import torch
from evoprompt_search_qa import bank, protocol
from evoprompt_search_qa.methods.play import play
from evoprompt_search_qa.methods.search_r1 import search_r1
from evoprompt_search_qa.methods.tiny import TINY
from evoprompt_search_qa.policies import tiny
from evoprompt_search_qa.tiny.agent import SearchAgent
from evoprompt_search_qa.tiny.policy import load_policy
from evoprompt_search_qa.tiny.task import SearchQa

TASK = SearchQa()
torch.set_num_threads(1)


def test_the_agent_of_the_harness_says_what_the_agent_of_training_says() -> None:
    parts = load_policy(TASK.settings.policy)
    good = bank.compose(bank.GOOD_IDEAS)
    questions = TASK.questions("validation")[:30]
    prompts = [protocol.plain_prompt(good, question.text) for question in questions]
    episodes = SearchAgent(*parts, TASK.retriever.search).run(prompts, greedy=True)
    attempts = play(
        search_r1,
        questions,
        good,
        TINY,
        tiny.wrap(*parts),
        lambda queries: [TASK.retriever.search(query) for query in queries],
    )
    assert [attempt.turns for attempt in attempts] == [episode.turns for episode in episodes]
    assert sum(attempt.searches for attempt in attempts) > len(questions)
