"""Who fills the roles of the loop: whom the user gave, or the built-in that the numbers ask for."""

from __future__ import annotations

from dataclasses import dataclass

from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.config import EngineConfig
from evoprompt.engine.seats import Announce, Seat, require_role
from evoprompt.errors import InputError, PluginError
from evoprompt.roles import Attributor, Selector, Verifier
from evoprompt.selectors import Deap, Softmax
from evoprompt.verifiers import ReplayTopN, Unverified


@dataclass(frozen=True, slots=True)
class Seats:
    """The roles that a built-in takes over when the component fails.

    Attributes:
        attributor: rewards to weights.
        sampler: draws the candidate of each question.
        survivor: keeps candidates when pruning.
        parent_selector: picks whom to improve.
        verifier: decides on new candidates.
    """

    attributor: Seat[Attributor]
    sampler: Seat[Selector]
    survivor: Seat[Selector]
    parent_selector: Seat[Selector]
    verifier: Seat[Verifier]

    def by_name(self) -> dict[str, Seat[Attributor] | Seat[Selector] | Seat[Verifier]]:
        """All of them, as the engine's arguments are called."""
        seats = (self.attributor, self.sampler, self.survivor, self.parent_selector, self.verifier)
        return {seat.name: seat for seat in seats}


def fill_seats(
    config: EngineConfig,
    announce: Announce | None,
    *,
    attributor: Attributor | None,
    sampler: Selector | None,
    survivor: Selector | None,
    parent_selector: Selector | None,
    verifier: Verifier | None,
) -> Seats:
    """The seats, each with the component given or with its built-in for None.

    Args:
        config: the numbers.
        announce: tells a person of a component's failure; None stops training instead.
        attributor: as in ``Engine``, and so are the others.
        sampler: as in ``Engine``.
        survivor: as in ``Engine``.
        parent_selector: as in ``Engine``.
        verifier: as in ``Engine``.

    Raises:
        InputError: a component cannot fill its role.
    """
    require_role("sampler", "selector", sampler)
    require_role("survivor", "selector", survivor)
    require_role("parent_selector", "selector", parent_selector)
    require_role("attributor", "attributor", attributor)
    require_role("verifier", "verifier", verifier)
    return Seats(
        Seat("attributor", attributor, lambda: _usual_attributor(config), announce),
        Seat("sampler", sampler, lambda: _usual_sampler(config), announce),
        Seat("survivor", survivor, lambda: Deap("best"), announce),
        Seat("parent_selector", parent_selector, lambda: Deap("best"), announce),
        Seat("verifier", verifier, lambda: _usual_verifier(config), announce),
    )


def _usual_sampler(config: EngineConfig) -> Selector:
    return Deap("random") if config.sampling == "even" else Softmax(config.reward_temperature)


def _usual_attributor(config: EngineConfig) -> Attributor:
    if config.weights == "rating":
        return _rating(config)
    return WindowMean(config.window) if config.weights == "window" else Adjusted()


def _rating(config: EngineConfig) -> Attributor:
    from evoprompt.plugins import build  # only here does an engine need a plugin

    low, high = config.reward_range
    try:
        return build("attributor", {"name": "rating", "tie": 0.01 * (high - low)})
    except PluginError as error:
        raise InputError(
            "weights are 'rating', as in the preset espl, and the plugin that brings it is not "
            f"there; required: evoprompt-ratings; pip install evoprompt-ratings ({error})"
        ) from error


def _usual_verifier(config: EngineConfig) -> Verifier:
    if config.accept == "all":
        return Unverified()
    return ReplayTopN(config.verify_questions, config.accept)
