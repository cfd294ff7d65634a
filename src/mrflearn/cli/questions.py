"""The questions to a saved model, a verb each; its description answers them.

A function here is the arguments and options of a command and its help; `answered` does the rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.asking import answered
from mrflearn.cli.field_rows import Columns, DropInserts, Letters, Molecule
from mrflearn.cli.inputs import input_argument, input_option
from mrflearn.cli.options import ChunkScheme, LikelihoodMethod, ModelFolder, Number, Seed
from mrflearn.cli.pictures import picture_of


@answered
def tag(
    context: typer.Context,
    model: ModelFolder,
    file: Annotated[Path, input_argument("Text as trained on; - is standard input.")] = Path("-"),
    n: Annotated[
        int,
        typer.Option("--number", "-n", min=1, help="This many labellings, with probabilities."),
    ] = 1,
    marginals: Annotated[
        bool, typer.Option("--marginals", help="The probability of each token's label.")
    ] = False,
    spans: Annotated[
        bool, typer.Option("--spans", help="Chunks and their probabilities in place of rows.")
    ] = False,
    scheme: Annotated[
        ChunkScheme | None, typer.Option(help="Keep chunk tags well-formed in this scheme.")
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="The file's format; text: words alone.")
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="Sentences at a time; 1 answers each at once.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """Label every token: the rows of the input, each with its label behind it.

    A tagger (train hmm, train tagger) gives CoNLL-U back with its column of tags filled in, a CRF
    on graphs (train graph) a row for each node.
    Of several layers each has its label.  Labels already in other input are kept and not looked
    at.  With --number each labelling stands below a line with its rank and probability (of graphs:
    its score).

    Example: mrflearn tag chunker < new.txt
    """


@answered
def fill(
    context: typer.Context,
    model: ModelFolder,
    sentence: Annotated[str, typer.Argument(help="Words with one gap, written _.")],
    n: Number = 10,
    as_json: Json = False,
) -> None:
    """The most probable words for a gap, with exact probabilities from both sides.

    Example: mrflearn fill model "the company said _ would rise"
    """


@answered
def neighbors(
    context: typer.Context,
    model: ModelFolder,
    words: Annotated[list[str], typer.Argument(help="Words, or three of them with --analogy.")],
    n: Number = 10,
    analogy: Annotated[
        bool, typer.Option("--analogy", help="What is to the third as the second to the first.")
    ] = False,
    plot: Annotated[Path | None, picture_of("the words and those found")] = None,
    as_json: Json = False,
) -> None:
    """The words nearest to each given word, by the cosine of their vectors.

    Example: mrflearn neighbors model company dollar -n 3
    """


@answered
def next_word(
    context: typer.Context,
    model: ModelFolder,
    words: Annotated[
        list[str] | None, typer.Argument(help="The sentence so far; none: its first word.")
    ] = None,
    document: Annotated[
        Path | None, input_option("Sentences before this one, which tell its topics.")
    ] = None,
    n: Number = 10,
    as_json: Json = False,
) -> None:
    """The most probable next words of a sentence, `</s>` for its end.

    Example: mrflearn next-word model the old man
    """


@answered
def parse(
    context: typer.Context,
    model: ModelFolder,
    file: Annotated[
        Path, input_argument("One sentence a line (gzip is fine); - is standard input.")
    ] = Path("-"),
    as_json: Json = False,
) -> None:
    """Draw the most probable tree over each sentence, in brackets, one a line.

    A blank line between sentences begins a new document: topics are inferred from the sentences
    before.

    Example: mrflearn parse model sentences.txt
    """


@answered
def sample(
    context: typer.Context,
    model: ModelFolder,
    n: Annotated[
        int, typer.Option("--number", "-n", min=1, help="How many rows, sentences or documents.")
    ] = 10,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file in place of the screen: .csv, .npy or .txt."),
    ] = None,
) -> None:
    """Draw new rows from a field, exactly where its width allows, or sentences of a language model.

    Example: mrflearn sample spikes-model -n 1000 -o new.csv
    """


@answered
def score(
    context: typer.Context,
    model: ModelFolder,
    file: Annotated[Path, input_argument("Rows of states, an alignment, or text.")],
    method: Annotated[
        LikelihoodMethod | None,
        typer.Option(
            help="exact (default of a field); ais: log Z by sampling; pl: pseudolikelihood "
            "(default of a family); bound (default of a text), ring: of a text."
        ),
    ] = None,
    columns: Columns = None,
    molecule: Letters = Molecule.protein,
    drop_inserts: DropInserts = False,
    as_json: Json = False,
) -> None:
    """The mean log-probability of the rows under a field; the perplexity of a text.

    Example: mrflearn score spikes-model held-out.txt --method ais
    """


@answered
def evaluate(
    context: typer.Context,
    model: ModelFolder,
    file: Annotated[Path, input_argument("Data of the kind it was trained on.")],
    train: Annotated[
        Path | None, input_option("CRF: its training file; adds accuracy on unseen words.")
    ] = None,
    scheme: Annotated[
        ChunkScheme | None, typer.Option(help="CRF: keep chunk tags well-formed in this scheme.")
    ] = None,
    n: Annotated[
        int,
        typer.Option("--number", "-n", min=0, help="CRF, tagger: how many confusions to show."),
    ] = 10,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="CRF, tagger: whether probabilities hold.")
    ] = False,
    columns: Columns = None,
    molecule: Letters = Molecule.protein,
    drop_inserts: DropInserts = False,
    seed: Seed = 0,
    plot: Annotated[
        Path | None,
        picture_of("a field's moments, a CRF's or tagger's confusions or, if asked, calibration"),
    ] = None,
    as_json: Json = False,
) -> None:
    """A CRF's or tagger's accuracy, a CRF's chunk scores; a field's held-out likelihood.

    A grammar's labelled brackets beside the trees of a treebank (as evalb counts them). Of word
    vectors: agreement with people's scores (`word word score` a line), or analogies answered right.

    Accuracy, precision, recall and F1 (as conlleval counts them) are shares between 0 and 1.

    Example: mrflearn evaluate chunker test.txt --json
    """


@answered
def inspect(
    context: typer.Context,
    model: ModelFolder,
    n: Annotated[int, typer.Option("--number", "-n", min=1, help="How many entries to show.")] = 20,
    label: Annotated[str | None, typer.Option(help="Of a CRF: this label's weights.")] = None,
    contacts: Annotated[
        bool, typer.Option("--contacts", help="Of an alignment: its strongest contacts.")
    ] = False,
    apart: Annotated[
        int | None, typer.Option(min=1, help="Contacts: least distance of columns [default: 4].")
    ] = None,
    matrix: Annotated[
        Path | None, typer.Option(help="Write all contact scores, in CCMpred's format.")
    ] = None,
    plot: Annotated[
        Path | None, picture_of("all pairs of a field as a heat map, or a map of frequent words")
    ] = None,
    edges: Annotated[
        bool, typer.Option("--edges", help="With --plot: the strongest edges instead.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with all of it, as training writes one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """A field's strongest couplings, a CRF's heaviest weights, the size of a language model.

    Example: mrflearn inspect spikes-model -n 10 --plot couplings.png
    """
