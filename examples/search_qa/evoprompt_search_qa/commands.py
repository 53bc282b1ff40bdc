"""``evoprompt search-qa ...``."""

from __future__ import annotations

import typer

from evoprompt_search_qa.data.commands import app as data_app

app = typer.Typer(
    name="search-qa", help="Prepare the questions of the search-QA example.", no_args_is_help=True
)
app.add_typer(data_app)


@app.callback()
def group() -> None:
    """Prepare the questions of the search-QA example."""
