"""scikit-learn's own checks of estimators, with the exceptions and their reasons."""

from __future__ import annotations

import inspect
from itertools import product
from typing import Any

import pytest
from sklearn.utils import estimator_checks

import mrflearn
from support.estimators import estimators

TABLES = [mrflearn.MarkovField(l2=0.1), mrflearn.PottsField()]
TABLES.append(mrflearn.FieldStructure(l1_path=3))  # it fits as many fields to each column
# Checks that a field of states fails, and always will.
FAILED = {
    "check_dtype_object": "words are refused by name, not as numbers",
    "check_positive_only_tag_during_fit": "states count from 0; -1 is a missing value or a spin",
    "check_sample_weight_equivalence_on_dense_data": "it fits real numbers, whatever the tags say",
}
# Checks that need no data: the others fit tables of real numbers, which sequences are not.
WITHOUT_DATA = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_do_not_raise_errors_in_init_or_set_params",
)


@pytest.mark.parametrize("model", TABLES, ids=lambda model: type(model).__name__)
@pytest.mark.filterwarnings("ignore")  # of recoded columns and small samples
def test_fields_pass_every_check_of_tables(model: Any) -> None:
    if "on_fail" not in inspect.signature(estimator_checks.check_estimator).parameters:
        pytest.skip("scikit-learn before 1.6 stops at the first check that fails")
    results = estimator_checks.check_estimator(model, on_fail=None)
    failed = {own["check_name"]: own["exception"] for own in results if own["status"] == "failed"}
    assert failed.keys() <= FAILED.keys(), failed
    assert sum(own["status"] == "passed" for own in results) >= 35


@pytest.mark.parametrize(("name", "check"), [*product(estimators(), WITHOUT_DATA)], ids=str)
def test_every_estimator_passes_the_checks_without_data(name: str, check: str) -> None:
    function = getattr(estimator_checks, check, None)
    if function is None:
        pytest.skip("this scikit-learn has no such check")
    function(name, getattr(mrflearn, name)())
