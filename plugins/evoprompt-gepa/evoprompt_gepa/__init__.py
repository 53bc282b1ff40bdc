"""GEPA's reflective proposer inside evoprompt, and evoprompt's proposers inside GEPA."""

from evoprompt_gepa.outbound import as_proposal_fn
from evoprompt_gepa.reflection import GepaReflection

__all__ = ["GepaReflection", "as_proposal_fn"]
