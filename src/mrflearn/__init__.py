"""Learn Markov random fields: language models, CRFs on any graph, lattices, composite grammars."""

__version__ = "0.1.0.dev0"
