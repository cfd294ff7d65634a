"""`mrflearn train`: one noun a kind of model, each in a file of its own."""

from __future__ import annotations

import typer

from mrflearn.cli.train_composite import composite
from mrflearn.cli.train_crf import crf
from mrflearn.cli.train_field import field
from mrflearn.cli.train_graph import graph
from mrflearn.cli.train_hmm import hmm
from mrflearn.cli.train_lm import lm
from mrflearn.cli.train_ngram import ngram
from mrflearn.cli.train_pcfg import pcfg
from mrflearn.cli.train_tagger import tagger
from mrflearn.cli.train_vectors import vectors

app = typer.Typer(help="Learn a model from data.", no_args_is_help=True)
app.command("crf", short_help="Labels of tokens: chunks, names, several layers.")(crf)
app.command("graph", short_help="Labels of the nodes of any graphs.")(graph)
app.command("field", short_help="Any field from samples or an alignment.")(field)
app.command("lm", short_help="Text, seen from both sides of a word.")(lm)
app.command("vectors", short_help="Word vectors from text, in seconds.")(vectors)
app.command("ngram", short_help="Text by Kneser-Ney n-grams.")(ngram)
app.command("hmm", short_help="Tags by a hidden Markov model.")(hmm)
app.command("tagger", short_help="Tags by a field of words and tags.")(tagger)
app.command("pcfg", short_help="A grammar from a treebank.")(pcfg)
app.command("composite", short_help="N-grams, grammar and topics in one.")(composite)


@app.callback()
def nouns() -> None:
    """Learn a model from data."""
