"""Proxy between a model and agents that own their prompt; it chooses the instruction.

The package needs the extra ``gateway``.
"""

from evoprompt.gateway.conversations import GatewayStoppedError, UnknownConversationError
from evoprompt.gateway.passing import KEY_HEADER
from evoprompt.gateway.server import Gateway
from evoprompt.gateway.settings import GatewaySettings

__all__ = [
    "KEY_HEADER",
    "Gateway",
    "GatewaySettings",
    "GatewayStoppedError",
    "UnknownConversationError",
]
