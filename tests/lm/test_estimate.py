from evoprompt.config import EngineConfig
from evoprompt.lm import Estimate
from evoprompt.lm.estimate import generations


def test_an_estimate_reads_like_a_sentence() -> None:
    assert str(Estimate(11, 61_000, 0.2)) == "about 11 calls, 61,000 tokens, 0.2 USD"
    assert str(Estimate(1, 900, None)) == "about 1 calls, 900 tokens, price unknown"


def test_an_unknown_price_makes_the_sum_unknown() -> None:
    assert Estimate(1, 10, 0.5) + Estimate(2, 20, 0.25) == Estimate(3, 30, 0.75)
    assert (Estimate(1, 10, 0.5) + Estimate(2, 20, None)).usd is None


def test_the_papers_run_has_eleven_generations() -> None:
    config = EngineConfig(preset="inspo")
    assert generations(config, steps=300) == 11  # App. C: ten evolutions, and the first population
    assert generations(config, steps=40) == 3


def test_without_an_end_the_steps_decide() -> None:
    endless = EngineConfig(evolve_until=None, evolve_every=10)
    assert generations(endless, steps=95) == 9
    assert generations(endless) == 0
