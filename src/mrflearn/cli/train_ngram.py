"""`mrflearn train ngram`: a Kneser-Ney n-gram model from text."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import Json, remark, say, say_json
from mrflearn.cli.inputs import input_argument, input_option
from mrflearn.cli.options import MinCount, Quiet, VocabularySize
from mrflearn.cli.output import Output, Overwrite
from mrflearn.cli.report import write_report


def ngram(
    text: Annotated[Path, input_argument("One sentence a line (gzip and - are fine).")],
    output: Output,
    order: Annotated[int, typer.Option(min=1, help="The longest n-gram.")] = 3,
    min_count: MinCount = 1,
    vocabulary_size: VocabularySize = None,
    validation: Annotated[Path | None, input_option("Text to report the perplexity of.")] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn an n-gram language model with modified Kneser-Ney smoothing.

    Example: mrflearn train ngram train.txt --order 5 --validation valid.txt -o model
    """
    from mrflearn.estimators.ngram import NgramLanguageModel

    model = NgramLanguageModel(order, min_count=min_count, vocabulary_size=vocabulary_size)
    started = time.perf_counter()
    model.fit(text)
    seconds = time.perf_counter() - started
    rated = None if validation is None else model.perplexity(validation)
    model.save(output, overwrite=overwrite)
    answer: dict[str, Any] = {
        "model": str(output),
        "order": order,
        "ngrams": model.ngrams_,
        "vocabulary": len(model.vocabulary_),
        "discounts": model.discounts_,
        "fallback_orders": model.fallback_orders_,
        "seconds": round(seconds, 4),
    }
    if rated is not None:
        answer["validation_perplexity"] = rated
    write_report(model, output, answer, quiet=quiet)
    if model.fallback_orders_:
        orders = ", ".join(map(str, model.fallback_orders_))
        remark(f"order {orders}: too few counts to estimate discounts; fixed ones are used")
    if as_json:
        say_json(answer)
        return
    sizes = ", ".join(f"{count:,}" for count in model.ngrams_)
    say(f"{output}: order {order}, {sizes} n-grams, learned in {seconds:.2f} s")
    if rated is not None:
        say(f"perplexity of {validation}: {rated:.2f} ({model.unknown_policy_})")
