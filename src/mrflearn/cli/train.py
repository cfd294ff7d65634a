"""`mrflearn train`: one noun for each kind of model."""

from __future__ import annotations

import typer

from mrflearn.cli.train_field import field
from mrflearn.cli.train_labels import crf, graph, hmm, tagger
from mrflearn.cli.train_text import composite, lm, ngram, pcfg, vectors
from mrflearn.cli.training import add_training

app = typer.Typer(help="Learn a model from data.", no_args_is_help=True)
for learn in (crf, graph, field, lm, vectors, ngram, hmm, tagger, pcfg, composite):
    add_training(app, learn.__name__, learn)


@app.callback()
def nouns() -> None:
    """Learn a model from data."""
