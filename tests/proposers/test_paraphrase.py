from evoprompt.lm import LanguageModel, LmSettings
from evoprompt.proposers.published import Paraphrase
from evoprompt.testing.samples import request

SILENT = LanguageModel(LmSettings(model="m"))


def test_every_parent_is_reworded_without_a_look_at_failures() -> None:
    asked = request(count=5, parents=2)
    planned = Paraphrase(SILENT).plan(asked)
    assert [one.inputs["instruction"] for one in planned] == [
        parent.candidate.text for parent in asked.parents
    ]
    assert [one.wanted for one in planned] == [3, 2]
    assert all("episodes" not in one.prompt.inputs for one in planned)
