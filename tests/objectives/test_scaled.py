"""Other units change the numbers searched over, and nothing else."""

from __future__ import annotations

import pytest
import torch

from mrflearn.kernels.coded_rows import CodedRows
from mrflearn.models.parameters import Layout
from mrflearn.models.potts import PottsModel
from mrflearn.objectives.penalties import ScaledL2, ScaledModel, ScaledObjective
from mrflearn.objectives.pseudolikelihood import CodedSamples, PottsPseudolikelihood


def test_value_parameters_and_penalty_are_those_of_the_model_within() -> None:
    generator = torch.Generator().manual_seed(0)
    zeros = PottsModel.zeros(3, 2, dtype=torch.float64)
    drawn, sizes = (
        {
            name: torch.rand(value.shape, generator=generator, dtype=torch.float64) + 0.5
            for name, value in zeros.parameters().items()
        }
        for _ in range(2)
    )
    model = zeros.with_parameters(drawn)
    scaled = ScaledModel(model, sizes)
    searched = scaled.parameters()
    torch.testing.assert_close(searched["fields"], model.fields / sizes["fields"])
    again = scaled.with_parameters(searched).model
    torch.testing.assert_close(again.couplings, model.couplings)
    rows = torch.randint(2, (5, 3), generator=generator)
    batch = CodedSamples(CodedRows.of(rows, 2), torch.ones(5, dtype=torch.float64))
    objective = PottsPseudolikelihood()
    torch.testing.assert_close(ScaledObjective(objective)(scaled, batch), objective(model, batch))
    layout = Layout.of(searched)
    vector = layout.flatten(searched)
    penalty = ScaledL2({"fields": 0.1, "couplings": 3.0}, sizes).laid_on(layout, vector)
    expected = 0.1 * model.fields.square().sum() + 3 * model.couplings.square().sum()
    assert float(penalty.smooth(vector)) == pytest.approx(float(expected))
