"""Search episodes with any causal language model, many at a time, token by token.

The policy writes until it closes a query or an answer; the passages found follow as tokens that
are not its own. See ``protocol.py`` for the tags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from transformers import PreTrainedTokenizerBase

from evoprompt.types import Turn
from evoprompt_search_qa import protocol
from evoprompt_search_qa.episode import Episode
from evoprompt_search_qa.open.limits import Limits
from evoprompt_search_qa.open.observer import Observer
from evoprompt_search_qa.open.samplers import Action, Sampler
from evoprompt_search_qa.open.tool import SearchMany

Busiest = Callable[[int], int]
"""The largest of the numbers that all processes call it with."""


class Player:
    """Plays episodes of the search protocol.

    Args:
        tokenizer: of the policy.
        sampler: writes the actions.
        search: the tool.
        limits: what an episode may use.
        busiest: makes the processes of a distributed training stay in step; by default there is
            one.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        sampler: Sampler,
        search: SearchMany,
        limits: Limits,
        busiest: Busiest = lambda count: count,
    ) -> None:
        self._tokenizer = tokenizer
        self._sampler = sampler
        self._search = search
        self._limits = limits
        self._busiest = busiest
        self._observation = Observer(tokenizer, limits.observation_tokens)

    def play(self, prompts: Sequence[Sequence[int]], *, greedy: bool = False) -> list[Episode]:
        """One episode a prompt, given as token ids.

        Raises:
            RetrievalError: the search server answered nobody.
        """
        episodes = [Episode(list(ids)) for ids in prompts]
        live = episodes
        while (most := self._busiest(len(live))) > 0:
            contexts = [episode.prompt_ids + episode.completion_ids for episode in live]
            # Who has finished keeps the others company; nobody reads what is said here.
            company = [[self._tokenizer.eos_token_id]] * (most - len(live))
            actions = self._sampler([*contexts, *company], greedy=greedy)[: len(live)]
            live = self._observe(live, actions) if live else []
        return episodes

    def _observe(self, live: Sequence[Episode], actions: Sequence[Action]) -> list[Episode]:
        """Writes actions and observations into the episodes; returns those that go on."""
        said = self._tokenizer.batch_decode(
            [action.ids for action in actions], skip_special_tokens=True
        )
        asking: list[tuple[Episode, str, str]] = []
        for episode, action, whole in zip(live, actions, said, strict=True):
            _append(episode, action.ids, action.logprobs, by_policy=True)
            text = protocol.first_action(whole)
            query = protocol.find_query(text)
            if query is None or episode.searches == self._limits.searches:
                answered = protocol.find_answer([Turn(text)]) is not None
                episode.turns.append(Turn(text))
                episode.end = (
                    "out of turns" if query is not None else "answered" if answered else "malformed"
                )
            else:
                asking.append((episode, text, query))
        found = self._search([query for _, _, query in asking]) if asking else []
        going_on = []
        for (episode, text, _), passages in zip(asking, found, strict=True):
            if passages is None:
                episode.turns.append(Turn(text))
                episode.end = "failed"
                continue
            shown, ids = self._observation(passages)
            episode.turns.append(Turn(text, shown))
            _append(episode, ids, None, by_policy=False)
            going_on.append(episode)
        return going_on


def _append(
    episode: Episode, ids: Sequence[int], logprobs: Sequence[float] | None, *, by_policy: bool
) -> None:
    episode.completion_ids += ids
    episode.policy_mask += [int(by_policy)] * len(ids)
    episode.logprobs += logprobs if logprobs is not None else [0.0] * len(ids)
