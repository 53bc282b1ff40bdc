"""Plugin of pytest: DSPy's default adapter is that of DSPy 3.5."""

import dspy

dspy.configure(adapter=dspy.XMLAdapter())
