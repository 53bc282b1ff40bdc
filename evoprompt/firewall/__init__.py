"""What every proposed text passes before one rollout is spent on it.

Language models return refusals, cut-off lists, copied training answers and polite introductions;
without a check each of them would become an instruction of the policy (METHOD trap 4). A rule is
one small function; the first that finds something names the rejection.
"""

from evoprompt.firewall.core import Finding, Firewall, FirewallContext, Rule
from evoprompt.firewall.rules import default_rules

__all__ = ["Finding", "Firewall", "FirewallContext", "Rule", "default_rules"]
