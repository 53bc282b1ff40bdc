"""A proxy between agents that own their prompt and a model: it chooses the instruction.

It needs the extra ``gateway``.
"""

from evoprompt.gateway.conversations import StoppedError, UnknownConversationError
from evoprompt.gateway.passing import KEY_HEADER
from evoprompt.gateway.server import Gateway
from evoprompt.gateway.settings import GatewaySettings

__all__ = ["KEY_HEADER", "Gateway", "GatewaySettings", "StoppedError", "UnknownConversationError"]
