"""Modules written for Triton, imported unchanged."""

from __future__ import annotations

import importlib
import sys

import pytest

import workbench as wb

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def triton():
    with wb.as_triton() as module:
        yield module


def library(name):
    full = f"tests.triton.libraries.{name}"
    sys.modules.pop(full, None)
    return importlib.import_module(full)


def sample(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_fused_norms():
    norms = library("fused_norms")
    x, w = sample(7, 33).requires_grad_(), sample(33).requires_grad_()
    y = norms.RMSNorm.apply(x, w, 1e-6)
    y.backward(dy := sample(7, 33))
    x2, w2 = x.detach().requires_grad_(), w.detach().requires_grad_()
    y2 = torch.nn.functional.rms_norm(x2, (33,), w2, 1e-6)
    y2.backward(dy)
    torch.testing.assert_close(y, y2)
    torch.testing.assert_close(x.grad, x2.grad)
    torch.testing.assert_close(w.grad, w2.grad)


@pytest.mark.parametrize("softcap", [0, 30])
def test_plain_calls(softcap):
    calls = library("plain_calls")
    logits, labels = sample(5, 101), torch.tensor([3, 100, -100, 0, 50])
    losses, logsumexp = calls.cross_entropy(logits, labels, softcap)
    capped = softcap * torch.tanh(logits / softcap) if softcap else logits
    wanted = torch.nn.functional.cross_entropy(capped, labels, reduction="none")
    torch.testing.assert_close(losses, wanted)
    torch.testing.assert_close(logsumexp, capped.logsumexp(1))


def test_linear_attention():
    attention = library("linear_attention")
    x, g = sample(2, 40, 12), -sample(2, 40).abs()
    torch.testing.assert_close(
        attention.decayed_cumsum(x, g), attention.reference(x, g), rtol=1e-4, atol=1e-4
    )
    h0 = sample(2, 12)
    torch.testing.assert_close(
        attention.decayed_cumsum(x, g, h0), attention.reference(x, g, h0), rtol=1e-4, atol=1e-4
    )
    bounds = torch.tensor([0, 5, 40])
    torch.testing.assert_close(
        attention.decayed_cumsum(x[:1], g[:1], cu_seqlens=bounds),
        attention.reference(x[:1], g[:1], cu_seqlens=bounds),
        rtol=1e-4,
        atol=1e-4,
    )
    assert attention.get_multiprocessor_count() > 0
    assert attention.TRITON_ABOVE_3_4_0


def test_launch_caches_and_tuners():
    entries = library("entries")
    x = sample(6, 50)
    for scale in (2.0, 3.0, 4.0):
        torch.testing.assert_close(entries.row_sum(x, scale), x.sum(1) * scale)
    entry = entries.row_sum_kernel
    assert len(entry.kernel_cache) == 1
    assert entry.fn.searches == 1
    y = sample(3, 200)
    torch.testing.assert_close(entries.row_sum(y, 1.0), y.sum(1))
    assert entry.fn.searches == 2


def test_generated_source_files():
    entries = library("entries")
    x, y = sample(100), sample(100)
    torch.testing.assert_close(entries.pointwise(entries.hypot)(x, y), torch.hypot(x, y))
