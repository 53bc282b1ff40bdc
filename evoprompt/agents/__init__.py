"""An agent that acts in turns with tools: one loop for every trainer and every evaluation.

``protocol`` converts text into actions and results into text, ``tools`` contains the functions that
can be called, ``episode`` the record of a rollout, ``agent`` the loop itself, a generator without
I/O, and ``drivers`` run it. No module of this package imports torch.
"""

from __future__ import annotations

from evoprompt.agents.agent import Agent, EpisodeSteps, Limits, Sample, Sampling
from evoprompt.agents.drivers import CallMany, Lockstep, Sampler, ToolCaller, play, play_one
from evoprompt.agents.episode import Action, Broken, Decode, Episode, Result, split, turns
from evoprompt.agents.protocol import AnswerProtocol, Move, Protocol, TagProtocol, ToolCall
from evoprompt.agents.tokenizer import ChatTokenizer, TextTokenizer, Tokenizer, described, encode
from evoprompt.agents.toolcalls import ToolCallProtocol
from evoprompt.agents.tools import Tools, ToolUnavailable

__all__ = [
    "Action",
    "Agent",
    "AnswerProtocol",
    "Broken",
    "CallMany",
    "ChatTokenizer",
    "Decode",
    "Episode",
    "EpisodeSteps",
    "Limits",
    "Lockstep",
    "Move",
    "Protocol",
    "Result",
    "Sample",
    "Sampler",
    "Sampling",
    "TagProtocol",
    "TextTokenizer",
    "Tokenizer",
    "ToolCall",
    "ToolCallProtocol",
    "ToolCaller",
    "ToolUnavailable",
    "Tools",
    "described",
    "encode",
    "play",
    "play_one",
    "split",
    "turns",
]
