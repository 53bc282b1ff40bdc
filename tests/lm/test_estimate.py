from evoprompt.config import EngineConfig
from evoprompt.lm import Estimate
from evoprompt.lm.estimate import forecast, generations


def test_an_estimate_reads_like_a_sentence() -> None:
    assert str(Estimate(11, 61_000, 0.2)) == "about 11 calls, 61,000 tokens, 0.2 USD"
    assert str(Estimate(1, 900, None)) == "about 1 calls, 900 tokens, price unknown"


def test_an_unknown_price_makes_the_sum_unknown() -> None:
    assert Estimate(1, 10, 0.5) + Estimate(2, 20, 0.25) == Estimate(3, 30, 0.75)
    assert (Estimate(1, 10, 0.5) + Estimate(2, 20, None)).usd is None


def test_the_papers_run_has_eleven_generations() -> None:
    # App. C: ten evolutions, and the first population
    assert generations(EngineConfig(preset="inspo")) == 11
    assert generations(EngineConfig(evolve_every=10, evolve_until=95)) == 9


def test_without_an_end_one_generation_is_counted() -> None:
    assert generations(EngineConfig(evolve_until=None)) == 1


class Expensive:
    """Costs a dollar a generation."""

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        return Estimate(generations, generations * count * 100 * parents, float(generations))


def test_a_forecast_asks_for_as_many_proposals_as_there_are_places() -> None:
    config = EngineConfig(preset="inspo", population_size=7, parents=2)
    assert forecast(Expensive(), config) == Estimate(11, 11_000, 11.0)


def test_a_proposer_without_a_price_costs_nothing() -> None:
    assert forecast(object(), EngineConfig()) == Estimate(0, 0, 0.0)
