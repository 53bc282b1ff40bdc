from __future__ import annotations

import pytest
from pydantic import BaseModel, Field, ValidationError, model_validator

from evoprompt.validation import explain


class Inner(BaseModel, extra="forbid"):
    size: int = 1


class Model(BaseModel, extra="forbid"):
    temperature: float = Field(1.0, gt=0)
    inner: Inner = Inner()

    @model_validator(mode="after")
    def check(self) -> Model:
        if self.temperature > 10:
            raise ValueError("temperature and inner do not go together; lower temperature")
        return self


class Strict(BaseModel):
    model: str


def explained(model: type[BaseModel], settings: object) -> str:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(settings)
    return explain(caught.value, model)


def test_a_wrong_value_is_shown_with_what_is_required() -> None:
    assert explained(Model, {"temperature": -1}) == (
        "temperature is -1: Input should be greater than 0"
    )


def test_a_nested_setting_is_named_by_its_path() -> None:
    assert explained(Model, {"inner": {"size": "big"}}).startswith("inner.size is 'big': ")


def test_an_unknown_setting_suggests_the_nearest_and_lists_the_known() -> None:
    assert explained(Model, {"temprature": 1}) == (
        "unknown setting 'temprature'; did you mean 'temperature'? (known: inner, temperature)"
    )


def test_a_missing_setting_is_named() -> None:
    assert explained(Strict, {}) == "model is missing"


def test_several_findings_make_one_line() -> None:
    findings = explained(Model, {"temperature": 0, "colour": 1})
    assert findings.count("; ") == 1
    assert "\n" not in findings


def test_a_finding_about_the_whole_is_passed_on() -> None:
    assert explained(Model, {"temperature": 11}) == (
        "temperature and inner do not go together; lower temperature"
    )


def test_a_long_value_is_shortened() -> None:
    assert len(explained(Model, {"temperature": "x" * 1000})) < 200
