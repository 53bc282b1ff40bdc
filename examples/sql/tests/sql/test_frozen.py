"""The shop's database with a model that is not trained, behind a server as strict as OpenAI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from evoprompt_sql.bank import SENTENCES
from evoprompt_sql.task import Sql, SqlSettings
from frozen_contract import FrozenContract

from evoprompt.testing.openai_server import Answer, Calls, Received

pytestmark = pytest.mark.endpoint

LOOKS_UP = ("one-table", "look-up", "follow", "each-name", "split")


@pytest.mark.nightly  # the gate has the calculator's
class TestSql(FrozenContract):
    yaml = Path(__file__).parents[2] / "tiny.yaml"

    def model(self, settings: Mapping[str, Any]) -> Answer:
        """Looks names up if it is told to; otherwise it takes them for columns of the orders."""
        sizes = {name: value for name, value in settings.items() if name != "name"}
        task = Sql(SqlSettings(**sizes))
        known = {q.text: q for split in self.task for q in task.questions(split)}
        told = [text for idea in LOOKS_UP for text in SENTENCES[idea]]

        def answer(body: Mapping[str, Any]) -> str | Calls:
            instruction, asked, *rest = (message["content"] for message in body["messages"])
            if rest:
                return str(rest[-1]) if str(rest[-1]).isdecimal() else "0"
            row = known[asked].row
            ready = row["stratum"] == "one table" or any(text in instruction for text in told)
            sql = row["sql"] if ready else "SELECT COUNT(*) FROM orders WHERE product = 'ink'"
            return Calls([("query", json.dumps({"sql": sql}))])

        return answer

    def check_request(self, request: Received) -> None:
        assert [tool["function"]["name"] for tool in request.body["tools"]] == ["query"]
