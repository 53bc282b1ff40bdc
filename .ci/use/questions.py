"""Writes a small question set and corpus in the formats of docs/search-qa.md to a folder."""

import json
import sys
from pathlib import Path

from evoprompt_search_qa.data.sets import SETS

folder = Path(sys.argv[1])
folder.mkdir()
for name, chosen in SETS.items():
    for split in chosen.splits:
        rows = (
            {"id": f"{split}_{n}", "question": f"{name} {split} {n}?", "golden_answers": [str(n)]}
            for n in range(6)
        )
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}_{split}.jsonl").write_text(text, encoding="utf-8")
passages = ("Ulm Minster has the tallest spire.", "The Danube is a river.", "Copper is a metal.")
text = "".join(f"{json.dumps({'id': str(n), 'contents': p})}\n" for n, p in enumerate(passages))
(folder / "corpus.jsonl").write_text(text, encoding="utf-8")
