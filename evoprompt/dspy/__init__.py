"""An optimizer of DSPy programs: ``from evoprompt.dspy import CoEvolve``."""

try:
    from evoprompt.dspy.coevolve import CoEvolve
    from evoprompt.dspy.results import CoEvolveResult
except ModuleNotFoundError as error:
    if error.name == "dspy":
        error.add_note('required: DSPy; pip install "evoprompt[lm]"')
    raise

__all__ = ["CoEvolve", "CoEvolveResult"]
