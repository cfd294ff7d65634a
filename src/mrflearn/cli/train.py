"""`mrflearn train`: one noun a kind of model."""

from __future__ import annotations

import typer

from mrflearn.cli.generated import GroupedCommand
from mrflearn.cli.train_field import field
from mrflearn.cli.train_labels import crf, graph, hmm, tagger
from mrflearn.cli.train_text import composite, lm, ngram, pcfg, vectors
from mrflearn.cli.training import training_command

app = typer.Typer(help="Learn a model from data.", no_args_is_help=True)
for learn, shared, short in (
    (crf, "checkpoint engine plot", "Labels of tokens: chunks, names, several layers."),
    (graph, "checkpoint engine plot", "Labels of the nodes of any graphs."),
    (field, "checkpoint engine plot", "Any field from samples or an alignment."),
    (lm, "checkpoint engine plot", "Text, seen from both sides of a word."),
    (vectors, "engine", "Word vectors from text, in seconds."),
    (ngram, "", "Text by Kneser-Ney n-grams."),
    (hmm, "", "Tags by a hidden Markov model."),
    (tagger, "checkpoint plot", "Tags by a field of words and tags."),
    (pcfg, "", "A grammar from a treebank."),
    (composite, "checkpoint engine plot", "N-grams, grammar and topics in one."),
):
    command = training_command(learn, shared.split())
    app.command(learn.__name__, short_help=short, cls=GroupedCommand)(command)


@app.callback()
def nouns() -> None:
    """Learn a model from data."""
