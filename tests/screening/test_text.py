from evoprompt.firewall.text import plain, sentences, tags, without_quotes, words


def test_curly_quotes_dashes_and_wide_letters_are_made_plain() -> None:
    assert plain("\u201cDon\u2019t\u201d \u2014 \uff21\uff22\u2026") == '"Don\'t" - AB...'


def test_words_are_in_lower_case_without_punctuation() -> None:
    assert words("Search, then <answer> It's 5.") == ["search", "then", "answer", "it", "s", "5"]


def test_sentences_end_at_punctuation_and_at_line_breaks() -> None:
    assert sentences('Go. "Stop!" she said\n- Go on?') == [
        ["go"],
        ["stop"],
        ["she", "said"],
        ["go", "on"],
    ]


def test_characters_of_scripts_without_spaces_are_words() -> None:
    assert words("\u5148\u641c\u7d22 now\u3002") == ["\u5148", "\u641c", "\u7d22", "now"]


def test_tags_come_in_order() -> None:
    assert tags("<a> x </a> 3 < 4 <b-c>") == [("a", False), ("a", True), ("b-c", False)]


def test_quoted_and_fenced_text_is_only_mentioned() -> None:
    left = without_quotes("Say \"I can't\" or `no` or 'never', don't ```x``` stop").split()
    assert left == ["Say", "or", "or", ",", "don't", "stop"]
