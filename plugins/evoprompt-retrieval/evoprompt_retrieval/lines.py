"""One line of a JSON-lines file, whoever wrote it."""

from __future__ import annotations

import json


def decode(line: bytes) -> object:
    """What a JSON line holds.

    Raises:
        ValueError: it holds nothing that can be used; the message says why, without naming the
            line.
    """
    try:
        found: object = json.loads(line.decode("utf-8-sig"))  # some editors begin files with a mark
        if b"\\u" in line:
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 ({error.reason} at byte {error.start})") from error
    except UnicodeEncodeError as error:
        # JSON can spell one half of a surrogate pair; no tokenizer and no file takes it.
        raise ValueError("holds half of a character; required: whole ones") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise ValueError("is nested too deeply; required: a flat object") from error
    return found
