"""Predictions compared with the truth: scores and reports."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.evaluation.brackets import BracketReport as BracketReport
    from mrflearn.evaluation.brackets import bracket_report as bracket_report
    from mrflearn.evaluation.calibration import Reliability as Reliability
    from mrflearn.evaluation.calibration import reliability as reliability
    from mrflearn.evaluation.chunks import ChunkReport as ChunkReport
    from mrflearn.evaluation.chunks import ChunkScore as ChunkScore
    from mrflearn.evaluation.chunks import chunk_report as chunk_report
    from mrflearn.evaluation.contacts import ContactComparison as ContactComparison
    from mrflearn.evaluation.contacts import compare_contacts as compare_contacts
    from mrflearn.evaluation.field_errors import EdgeErrors as EdgeErrors
    from mrflearn.evaluation.field_errors import standard_errors as standard_errors
    from mrflearn.evaluation.field_resampling import CaseDropping as CaseDropping
    from mrflearn.evaluation.field_resampling import FieldBootstrap as FieldBootstrap
    from mrflearn.evaluation.field_resampling import GroupComparison as GroupComparison
    from mrflearn.evaluation.field_resampling import bootstrap as bootstrap
    from mrflearn.evaluation.field_resampling import case_dropping as case_dropping
    from mrflearn.evaluation.field_resampling import centrality as centrality
    from mrflearn.evaluation.field_resampling import compare_groups as compare_groups
    from mrflearn.evaluation.field_resampling import predictability as predictability
    from mrflearn.evaluation.layers import LayersReport as LayersReport
    from mrflearn.evaluation.layers import layers_report as layers_report
    from mrflearn.evaluation.similarity import CosineSpace as CosineSpace
    from mrflearn.evaluation.similarity import analogies as analogies
    from mrflearn.evaluation.similarity import spearman as spearman
    from mrflearn.evaluation.similarity import word_similarity as word_similarity
    from mrflearn.evaluation.tagging import Confusion as Confusion
    from mrflearn.evaluation.tagging import TaggingReport as TaggingReport
    from mrflearn.evaluation.tagging import confusion as confusion
    from mrflearn.evaluation.tagging import many_to_one as many_to_one
    from mrflearn.evaluation.tagging import tagging_report as tagging_report
    from mrflearn.evaluation.tagging import v_measure as v_measure

__getattr__, __dir__ = lazy(__name__)
