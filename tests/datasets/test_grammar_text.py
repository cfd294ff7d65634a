"""Grammars in text: families of rules, literals, and complaints that name the line."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.datasets.grammar import Grammar, label, literal, read_grammar
from mrflearn.errors import DataError

TEXT = """# a comment
let N = sg pl
3 S -> NP[N] VP[N] .:.   # agreement
2 S -> UH:N .:.
1 NP[N] -> DT:the N[noun,N]
1 NP[N] -> DT:the N[noun,N]
1 VP[sg] -> VBZ[x]
1 VP[pl] -> VBP[x]
1 VP[dual] -> VBP[x]
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "rules.pcfg"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_letters_stand_for_each_value_throughout_a_rule(written):
    grammar = read_grammar(written(TEXT))
    assert grammar.start == "S"
    assert {str(rule): rule.probability for rule in grammar.rules} == {
        "S -> NP[sg] VP[sg] .:.": 0.375,
        "S -> NP[pl] VP[pl] .:.": 0.375,
        "S -> UH:N .:.": 0.25,  # the word N, not the letter
        "NP[sg] -> DT:the sg[noun,sg]": 1.0,  # rules that are written twice are one
        "NP[pl] -> DT:the pl[noun,pl]": 1.0,
        "VP[sg] -> VBZ[x]": 1.0,
        "VP[pl] -> VBP[x]": 1.0,  # VP[dual] is out of reach
    }


def test_spelling_of_symbols():
    assert literal("IN:of") == ("IN", "of")
    assert literal("::;") == (":", ";")
    assert literal("NN[per]") is None
    assert label("NP[def,per]") == "NP"
    assert label("_np[per]") == "_np"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1 S -> a\nS goes to b\n", r"rules\.pcfg:2: 'S goes to b' is neither"),
        ("one S -> a\n", r"rules\.pcfg:1: 'one' should be the rule's weight"),
        ("-1 S -> a\n", r"rules\.pcfg:1: '-1' should be"),
        ("nan S -> a\n", r"rules\.pcfg:1: 'nan' should be"),
        ("# nothing\n", r"rules\.pcfg: there is no rule"),
    ],
)
def test_complaints_name_the_line(written, text, complaint):
    with pytest.raises(DataError, match=complaint):
        read_grammar(written(text))


@given(text=st.lists(st.sampled_from([*"1SABN#->=[],: \n", "let ", "->"])).map("".join))
def test_any_text_gives_a_grammar_or_a_data_error(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("fuzz") / "rules.pcfg"
    path.write_text(text, encoding="utf-8")
    with suppress(DataError):
        assert isinstance(read_grammar(path), Grammar)


def test_a_line_may_not_stand_for_rules_without_end(written):
    lets = "".join(f"let {letter} = a b c d e f g h i j\n" for letter in "ABCDEFGHIJ")
    path = written(lets + "1 S[A,B,C,D,E] -> N[F,G,H,I,J]\n")
    with pytest.raises(DataError, match=r":11: .*rules"):
        read_grammar(path)
