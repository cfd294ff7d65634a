"""Grammars in text: families of rules, and literals."""

from __future__ import annotations

from mrflearn.datasets.grammar import label, literal, read_grammar

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


def test_letters_stand_for_each_value_throughout_a_rule():
    grammar = read_grammar(TEXT)
    assert grammar.start == "S"
    assert {
        f"{rule.left} -> {' '.join(rule.right)}": rule.probability for rule in grammar.rules
    } == {
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
