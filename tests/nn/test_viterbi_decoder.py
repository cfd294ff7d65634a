"""Exported decoding gives what `ChainCRF.decode` gives."""

from __future__ import annotations

import warnings

import pytest
import torch

from mrflearn.errors import SettingsError
from mrflearn.nn import ChainCRF, ViterbiDecoder, legal_chunks

CONSTRAINTS = legal_chunks(["O", "B-X", "I-X", "B-Y", "I-Y"], "IOB2")
SENTENCES, LONGEST, TAGS = 1000, 14, 5


def decoder_and_sentences(batch_first=True, constraints=CONSTRAINTS):
    generator = torch.Generator().manual_seed(0)
    crf = ChainCRF(TAGS, batch_first=batch_first, constraints=constraints)
    with torch.no_grad():
        for own in crf.parameters():
            own.copy_(torch.randn(own.shape, generator=generator))
    emissions = torch.randn(SENTENCES, LONGEST, TAGS, generator=generator)
    mask = torch.rand(SENTENCES, LONGEST, generator=generator) < 0.7
    mask[0] = False
    return ViterbiDecoder(crf), emissions, mask


def listed(tags):
    return [[tag for tag in row if tag >= 0] for row in tags.tolist()]


def exported(decoder):
    """The program for any number of sentences of any length."""
    scan = pytest.importorskip("torch._higher_order_ops.scan", reason="this torch has no scan")
    assert hasattr(scan, "scan")
    b, n = torch.export.Dim("b", min=2), torch.export.Dim("n", min=2)
    shapes = {"emissions": {0: b, 1: n}, "mask": {0: b, 1: n}}
    example = torch.zeros(3, 4, TAGS), torch.ones(3, 4, dtype=torch.bool)
    return example, shapes


@pytest.mark.parametrize("constraints", [None, CONSTRAINTS], ids=["free", "legal"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_in_plain_torch(batch_first, constraints):
    decoder, emissions, mask = decoder_and_sentences(batch_first, constraints)
    given = (emissions, mask) if batch_first else (emissions.transpose(0, 1), mask.t())
    tags, scores = decoder(*given)
    crf = decoder.crf
    assert tags.shape == given[1].shape
    assert listed(tags if batch_first else tags.t()) == crf.decode(*given)
    paths, shares = crf.n_best(given[0], 1, given[1])
    best = shares[0] + crf.log_partition(*given).detach()
    torch.testing.assert_close(scores, best, rtol=1e-4, atol=1e-4)
    assert torch.equal(paths[0], tags)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_exported_by_torch():
    decoder, emissions, mask = decoder_and_sentences()
    example, shapes = exported(decoder)
    program = torch.export.export(decoder, example, dynamic_shapes=shapes).module()
    assert listed(program(emissions, mask)[0]) == decoder.crf.decode(emissions, mask)


def test_exported_to_onnx(tmp_path):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason=f"the package {name} is not installed")
    import onnxruntime

    decoder, emissions, mask = decoder_and_sentences()
    example, shapes = exported(decoder)
    file = tmp_path / "viterbi.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            decoder,
            example,
            file,
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=["emissions", "mask"],
            verbose=False,
        )
    session = onnxruntime.InferenceSession(file)
    tags, _ = session.run(None, {"emissions": emissions.numpy(), "mask": mask.numpy()})
    assert listed(tags) == decoder.crf.decode(emissions, mask)


def test_order_two_is_refused():
    with pytest.raises(SettingsError, match="order=2"):
        ViterbiDecoder(ChainCRF(3, order=2))
