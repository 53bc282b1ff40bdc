"""Rules about what an instruction makes of the policy; people ask for them, proposals do not.

They look at what may be right in one deployment and wrong in another, so that no proposal is turned
away by them: ``evoprompt audit`` shows what they find.
"""

from __future__ import annotations

import re

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.needles import Phrases
from evoprompt.firewall.text import any_of
from evoprompt.types import Proposal

_INJECTED = any_of(
    r"\b(?:ignore|disregard|forget|override|bypass)\b[^.!?\n]{0,30}\b(?:previous|prior|above|earlier|"
    r"all|any|your|the|system)\b[^.!?\n]{0,30}\b(?:instructions?|prompts?|rules?|guidelines?|"
    r"polic(?:y|ies)|safety|filters?)\b",
    r"\b(?:developer|jailbreak|god|dan) mode\b|\bdo anything now\b|\bjailbroken\b",
    r"\b(?:reveal|print|repeat|leak|show)\b[^.!?\n]{0,20}\b(?:system prompt|hidden "
    r"instructions?)\b",
    r"\b(?:ignoriere|vergiss)\b[^.!?\n]{0,40}\b(?:anweisungen|regeln)\b"
    r"|\bignor(?:a|ez?)\b[^.!?\n]{0,40}\b(?:instruc\w+|reglas|règles)\b",
)
_IDENTITY = any_of(
    r"\b(?:you are|you're|act as|i am|i'm|pretend to be|your name is|call yourself|made by|"
    r"trained by|developed by)\b[^.!?\n]{0,30}\b(?:chatgpt|gpt-?\d\w*|openai|claude|anthropic|"
    r"gemini|bard|deepmind|llama|meta ai|qwen|alibaba|deepseek|mistral|copilot|grok|kimi)\b",
    r"\b(?:you are|you're|pretend to be|claim to be|say (?:that )?you are)\b[^.!?\n]{0,20}\b(?:a "
    r"(?:human|real person)|not an ai|human being|licensed|certified)\b",
)
_UNSAFE = any_of(
    r"\brm\s+-\w*[rf]|\b(?:curl|wget)\b[^\n|]{0,200}\|\s*(?:ba|z)?sh\b|\bchmod\s+777|\bmkfs\b"
    r"|\bdrop\s+(?:table|database)\b|\bdelete\s+from\b|\btruncate\s+table\b|\bos\.system\b"
    r"|\bsudo\b|\beval\s*\(",
    r"\b(?:delete|erase|wipe|overwrite|drop|destroy)\b[^.!?\n]{0,30}\b(?:files?|folders?|director\w+|"
    r"databases?|tables?|disks?|backups?|logs?)\b",
    r"\b(?:without|never|don't|do not|no need to|skip)\b[^.!?\n]{0,20}\b(?:ask\w*|confirm\w*|"
    r"approv\w+|permission|consent)\b",
    r"\b(?:send|post|upload|email|forward|exfiltrate)\b[^.!?\n]{0,40}\b(?:passwords?|api keys?|"
    r"credentials?|secrets?|tokens?|personal data|https?://)",
)
_NEGATED = re.compile(
    r"\b(?:never|not|don't|avoid|refuse to|must not|cannot)\b[^.!?\n]{0,20}\Z", re.I
)


def injection(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds commands to set other instructions aside, or to give them away."""
    return _found(_INJECTED, proposal, "commands the policy to set other instructions aside")


def identity(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds claims to be a product, a company's model, or a person."""
    return _found(_IDENTITY, proposal, "gives the policy an identity")


def unsafe_tool_use(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds destructive commands, secrets sent away, and tools used without asking."""
    return _found(_UNSAFE, proposal, "asks for what may do harm with tools")


def _found(pattern: Phrases, proposal: Proposal, what: str) -> str | None:
    for found in pattern.finditer(proposal.text):
        before = proposal.text[max(found.start() - 40, 0) : found.start()]
        if not _NEGATED.search(before):
            return f"the text {what}: {' '.join(found.group().split())!r}"
    return None
