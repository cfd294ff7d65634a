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
app.command("composite")(composite)
app.command("crf")(crf)
app.command("field")(field)
app.command("graph")(graph)
app.command("hmm")(hmm)
app.command("lm")(lm)
app.command("ngram")(ngram)
app.command("pcfg")(pcfg)
app.command("tagger")(tagger)
app.command("vectors")(vectors)


@app.callback()
def nouns() -> None:
    """Learn a model from data."""
