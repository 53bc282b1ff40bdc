"""Key that two spellings of one question share, for finding repeated questions."""

from __future__ import annotations

import html
import unicodedata

from evoprompt_search_qa.scoring import normalise


def question_key(text: str) -> str:
    """Return a key that two spellings of one question share.

    The key has its letters and digits without articles. It ignores case, spaces, hyphens, quotes,
    invisible characters, HTML entities and the form of accents.

    >>> question_key("Who wrote  the &quot;Iliad&quot;?") == question_key("who wrote “Iliad”")
    True
    """
    # The acute accent alone is an apostrophe; NFKC would make a space of it.
    plain = html.unescape(html.unescape(text)).replace("\u00b4", "'")
    plain_characters = "".join(map(_plain, unicodedata.normalize("NFKC", plain)))
    return normalise(plain_characters).replace(" ", "")


def _plain(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Pd":
        return " "
    return "" if category == "Cf" or category.startswith("P") else character
