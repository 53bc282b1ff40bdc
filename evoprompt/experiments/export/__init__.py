"""What a training leaves to deploy: a folder that asks as the policy was trained to be asked."""

from __future__ import annotations

from evoprompt.experiments.export.folder import EXPORT, write_artefact
from evoprompt.experiments.export.recipe import Recipe, SupportsRecipe, placement_of

__all__ = ["EXPORT", "Recipe", "SupportsRecipe", "placement_of", "write_artefact"]
