"""The kinds of model there are: where each lives, and what answers for it in the packages above.

This is the only table of them.  It holds names, written `module:function`, so that a command for
one kind of model loads nothing of the others.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """Where an estimator lives, and what answers for it.

    home: its module, in `mrflearn.estimators`.
    verbs: of the command line, each with a function in `mrflearn.cli` whose first argument is the
        model; the others are the arguments and options of the verb that this kind reads.
    page: a function in `mrflearn.plots` that adds what was learned to a report, if any.
    tasks: a function in `mrflearn.serving` that says what can be asked on a page, if anything can.
    """

    home: str
    verbs: Mapping[str, str]
    page: str | None
    tasks: str | None


TAGGER = {
    "tag": "tag_tagger:tag_tagger",
    "evaluate": "evaluate_tagger:evaluate_tagger",
    "inspect": "inspect_tagger:inspect_tagger",
}
LAYERED = {
    "tag": "layered_answers:tag_layered",
    "evaluate": "layered_answers:evaluate_layered",
    "inspect": "layered_answers:inspect_layered",
}
FIELD = {
    "score": "field_answers:score_field",
    "evaluate": "evaluate_field:evaluate_field",
    "sample": "field_answers:sample_field",
    "inspect": "inspect_field:inspect_field",
}
KINDS = {
    "CRF": Kind(
        "crf",
        {
            "tag": "tag_crf:tag_crf",
            "evaluate": "evaluate_crf:evaluate_crf",
            "inspect": "inspect_crf:inspect_crf",
        },
        "label_pages:add_chain",
        "label_tasks:crf_tasks",
    ),
    "CompositeLanguageModel": Kind(
        "composite",
        {
            "score": "composite_answers:score_documents",
            "evaluate": "evaluate_parses:evaluate_parses",
            "sample": "composite_answers:sample_documents",
            "inspect": "composite_answers:inspect_composite",
            "parse": "parse:parse_documents",
            "next-word": "next_word:continue_document",
        },
        "text_pages:add_composite",
        "text_tasks:composite_tasks",
    ),
    "FactorialCRF": Kind(
        "factorial_crf", LAYERED, "label_pages:add_graphs", "label_tasks:layered_tasks"
    ),
    "FieldStructure": Kind("structure", {}, None, None),  # asked in Python
    "GraphCRF": Kind(
        "graph_crf",
        {
            "tag": "graph_answers:tag_graphs",
            "evaluate": "graph_answers:evaluate_graphs",
            "inspect": "graph_answers:inspect_graphs",
        },
        "label_pages:add_graphs",
        "graph_tasks:graph_tasks",
    ),
    "HMMTagger": Kind(
        "hmm_tagger", TAGGER, "label_pages:add_hidden_markov", "label_tasks:tagger_tasks"
    ),
    "JointTagger": Kind(
        "tagger", TAGGER, "label_pages:add_joint_tagger", "label_tasks:tagger_tasks"
    ),
    "LanguageModel": Kind(
        "language_model",
        {
            "score": "lm_answers:score_neighbours",
            "evaluate": "vector_answers:evaluate_vectors",
            "sample": "lm_answers:sample_neighbours",
            "inspect": "lm_answers:inspect_neighbours",
            "fill": "fill:fill_gap",
            "neighbors": "neighbors:nearest_words",
        },
        "text_pages:add_language_model",
        "text_tasks:language_model_tasks",
    ),
    "MarkovField": Kind("field", FIELD, "field_pages:add_field", "field_tasks:field_tasks"),
    "NgramLanguageModel": Kind(
        "ngram",
        {
            "score": "ngram_answers:score_text",
            "sample": "ngram_answers:sample_text",
            "inspect": "ngram_answers:inspect_text",
            "next-word": "next_word:continue_sentence",
        },
        "text_pages:add_ngrams",
        "text_tasks:ngram_tasks",
    ),
    "PCFG": Kind(
        "pcfg",
        {
            "score": "pcfg_answers:score_sentences",
            "evaluate": "evaluate_parses:evaluate_parses",
            "sample": "pcfg_answers:sample_trees",
            "inspect": "pcfg_answers:inspect_pcfg",
            "parse": "parse:parse_documents",
            "next-word": "next_word:continue_sentence",
        },
        "text_pages:add_grammar",
        "pcfg_tasks:pcfg_tasks",
    ),
    "PottsField": Kind("potts", FIELD, "field_pages:add_field", "field_tasks:field_tasks"),
    "SkipChainCRF": Kind(
        "skip_chain_crf", LAYERED, "label_pages:add_graphs", "label_tasks:layered_tasks"
    ),
    "WordVectors": Kind(
        "word_vectors",
        {
            "evaluate": "vector_answers:evaluate_vectors",
            "inspect": "vector_answers:inspect_vectors",
            "neighbors": "neighbors:nearest_words",
        },
        "text_pages:add_words",
        "vector_tasks:vector_tasks",
    ),
}


def found_in(package: str, place: str) -> Callable[..., Any]:
    """The function at a place of the table, in the package that holds it."""
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(f"mrflearn.{package}.{module}"), name)
    return function
