"""What `mrflearn inspect` says of a tagger: its size, and how a hidden Markov model counts."""

from __future__ import annotations

from typing import Any

from mrflearn.cli.answers import say, say_json, say_table


def inspect_tagger(tagger: Any, top: int, as_json: bool) -> None:
    """Settings, words and tags; of a hidden Markov model the most frequent steps as well."""
    answer: dict[str, Any] = {
        "class": type(tagger).__name__,
        "settings": tagger.get_params(),
        "words": len(tagger.known_words_),
        "tags": tagger.classes_,
    }
    if hasattr(tagger, "interpolation_"):
        answer["interpolation"] = tagger.interpolation_
        answer["steps"] = [[*row] for row in tagger.top_steps(top)]
    if hasattr(tagger, "bound_"):
        answer["log_likelihood_per_position"] = tagger.bound_
    if as_json:
        say_json(answer)
        return
    say(f"{answer['class']}: {len(answer['tags'])} tags, {answer['words']:,} words")
    say(", ".join(f"{name}={value}" for name, value in answer["settings"].items()))
    say("tags: " + ", ".join(answer["tags"]))
    if "log_likelihood_per_position" in answer:
        say(f"log-likelihood at least {tagger.bound_:.4f} nats a position")
    if "steps" in answer:
        weights = ", ".join(f"{weight:.2f}" for weight in answer["interpolation"])
        say(f"weights of tag n-grams, short ones first: {weights}")
        say()
        rows = [[f"{a} -> {b}", str(n), f"{p:.4f}"] for a, b, n, p in answer["steps"]]
        say_table(["step", "times", "probability"], rows)
