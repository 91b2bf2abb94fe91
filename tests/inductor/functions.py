"""Functions that torch compiles through us: what each computes, and on which arguments.

A case is a function of tensors. Those that require gradients are differentiated: by the sum of
each floating result times fixed weights, so that no gradient is trivial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional

Arguments = Callable[["Maker"], tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """A function, its arguments, and how it is compiled.

    `options` are settings of torch's compiler; `tolerance` is absolute and relative where torch's
    own for the dtype is not meant (sums of many); `dynamic` has sizes as arguments of the kernels;
    `calls` are functions of torch that its graphs may call besides kernels.
    """

    name: str
    function: Callable[..., Any]
    arguments: Arguments
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: float | None = None
    dynamic: bool | None = False
    random: bool = False
    cuda_only: bool = False


class Maker:
    """Makes arguments on a device, from one seed."""

    def __init__(self, device: str = "cpu", seed: int = 0, scale: int = 1) -> None:
        self.device = device
        self.scale = scale
        self.generator = torch.Generator().manual_seed(seed)

    def x(self, *shape: int, dtype: Any = torch.float32, grad: bool = True) -> torch.Tensor:
        """Return normal numbers."""
        made = torch.randn(*shape, generator=self.generator)
        return made.to(self.device, dtype).requires_grad_(grad and dtype.is_floating_point)

    def positive(self, *shape: int, grad: bool = True) -> torch.Tensor:
        """Return numbers from 0.5 to 1.5."""
        made = torch.rand(*shape, generator=self.generator) + 0.5
        return made.to(self.device).requires_grad_(grad)

    def i(self, *shape: int, high: int, low: int = 0, dtype: Any = torch.int64) -> torch.Tensor:
        """Return integers from `low` to below `high`."""
        made = torch.randint(low, high, shape, generator=self.generator)
        return made.to(self.device, dtype)

    def b(self, *shape: int) -> torch.Tensor:
        """Return truth values."""
        return (torch.rand(*shape, generator=self.generator) < 0.7).to(self.device)


CASES: dict[str, Case] = {}


def case(arguments: Arguments, **given: Any) -> Callable[[Any], Any]:
    """Enter a function under its name."""

    def enter(function: Any) -> Any:
        name = function.__name__
        CASES[name] = Case(name, function, arguments, **given)
        return function

    return enter


HALF, BRAIN = torch.float16, torch.bfloat16


# -- elementwise --------------------------------------------------------------------------------
@case(lambda m: (m.x(64, 127), m.x(127)))
def add_relu(x, bias):
    return torch.relu(x + bias)


@case(lambda m: (m.x(33, 65), m.x(33, 65)))
def gelu_both(x, y):
    return functional.gelu(x) + functional.gelu(y, approximate="tanh")


@case(lambda m: (m.x(40, 96, dtype=BRAIN), m.x(40, 96, dtype=BRAIN)))
def silu_times(gate, up):
    return functional.silu(gate) * up


@case(lambda m: (m.x(17, 129, dtype=HALF),))
def half_chain(x):
    return torch.sigmoid(x) * torch.tanh(x) + x.float().exp2().to(HALF)


@case(lambda m: (m.positive(50, 30),))
def powers_and_logs(x):
    return x**3 + x.sqrt() + x.rsqrt() + torch.log1p(x) + torch.expm1(x) + torch.log2(x)


@case(lambda m: (m.x(31, 33),))
def trigonometry(x):
    return torch.sin(x) + torch.cos(2 * x) + torch.atan(x) + torch.sinh(x) + torch.erf(x)


@case(lambda m: (m.x(20, 70), m.x(20, 70), m.b(20, 70)))
def where_and_clamp(x, y, condition):
    return torch.where(condition, x.clamp(-0.5, 0.5), torch.maximum(x, y)) - torch.minimum(x, y)


@case(lambda m: (m.i(64, 50, low=-100, high=100, dtype=torch.int32),
                 m.i(64, 50, low=1, high=13, dtype=torch.int32)))  # fmt: skip
def integers(x, y):
    quotient = torch.div(x, y, rounding_mode="floor")
    return quotient, x % y, torch.div(x, y, rounding_mode="trunc"), (x << 2) ^ (y & 5), x >> 1


@case(lambda m: (m.i(1000, low=-(2**31), high=2**31 - 1, dtype=torch.int32),))
def integers_that_wrap(x):
    return x * 1103515245 + 12345, ((x * x) > 0), (x * 3).float()


@case(
    lambda m: (
        m.i(300, low=-120, high=120, dtype=torch.int8),
        m.i(300, high=256, dtype=torch.uint8),
    )
)
def narrow_integers(x, y):
    return x + x, y * y, x.float() / 3, y.to(torch.int16) - 200


@case(lambda m: (m.b(45, 20), m.b(45, 20), m.x(45, 20, grad=False)))
def truth(a, b, x):
    return a & ~b | (x > 0), torch.logical_xor(a, b), x.isnan() | x.isinf()


@case(lambda m: (m.x(24, 36), m.x(36, 24)))
def transposed(x, y):
    return (x.t() * y).contiguous() + x.permute(1, 0)


@case(lambda m: (m.x(5, 1, 17), m.x(1, 9, 17), m.x(5, 9, 1)))
def broadcast(x, y, z):
    return x * y + z


@case(lambda m: (m.x(13, 21), m.x(13, 10)))
def concatenated(x, y):
    return torch.cat([x * 2, y + 1, x[:, ::2]], dim=1)


@case(lambda m: (m.x(6, 10, 12),))
def padded(x):
    return functional.pad(x, (1, 2, 3, 0), value=0.5) * 2 + functional.pad(
        x, (3, 0, 1, 2), mode="reflect"
    )


@case(lambda m: (m.x(30, 40),))
def rolled_and_flipped(x):
    return x.roll(3, 1) + x.flip(0) + torch.tril(x, 2)


@case(lambda m: (m.x(25, 25), m.x(25, 25), m.x(25, 25)))
def mixed(x, y, z):
    return torch.addcmul(x, y, z, value=0.3) + torch.lerp(x, y, 0.25) + torch.fmod(x, 0.7)


@case(lambda m: (m.x(21, 33),))
def activations(x):
    return (
        functional.elu(x)
        + functional.leaky_relu(x, 0.1)
        + functional.softplus(x)
        + functional.mish(x)
        + functional.hardswish(x)
        + functional.selu(x)
    )


@case(lambda m: (m.x(11, 40, grad=False),))
def rounding(x):
    big = x * 3
    return big.round(), big.floor(), big.ceil(), big.trunc(), big.to(torch.int32), big.sign()


@case(lambda m: (m.x(2, 3, 20, 20),))
def upsampled(x):
    return functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


@case(lambda m: (m.x(2, 4, 17, 19),))
def pooled(x):
    return functional.max_pool2d(x, 3, stride=2, padding=1), functional.avg_pool2d(x, 2)


# -- reductions ---------------------------------------------------------------------------------
@case(lambda m: (m.x(37, 300),))
def row_sums(x):
    return x.sum(1), x.mean(1)


@case(lambda m: (m.x(300, 37),))
def column_sums(x):
    return x.sum(0), (x * x).mean(0)


@case(lambda m: (m.x(123, 457),), tolerance=1e-4)
def sum_of_all(x):
    return (x.sin() * x).sum()


@case(lambda m: (m.x(50000, 3),), tolerance=1e-4)
def long_columns(x):
    return x.sum(0), x.abs().amax(0)


@case(lambda m: (m.x(40, 260),))
def extremes(x):
    return x.max(1).values, x.min(1).values, x.amax(), x.amin(0)


@case(lambda m: (m.x(40, 260, grad=False),))
def places_of_extremes(x):
    return x.argmax(1), x.argmin(0), x.max(1).indices


@case(lambda m: (m.positive(30, 20),))
def products(x):
    return x.prod(1), x.prod()


@case(lambda m: (m.b(30, 200), m.x(30, 200, grad=False)))
def truth_of_many(b, x):
    return b.any(1), b.all(0), (x > 1).sum(1), torch.count_nonzero(x > 0)


@case(lambda m: (m.x(40, 333),))
def variances(x):
    variance, mean = torch.var_mean(x, dim=1)
    return variance, mean, x.std(0)


@case(lambda m: (m.x(32, 500),))
def norms(x):
    return x.norm(dim=1), x.norm(p=1, dim=0), torch.linalg.vector_norm(x)


@case(lambda m: (m.x(32, 500),))
def log_sum_exp(x):
    return torch.logsumexp(x, 1)


@case(lambda m: (m.x(9, 2500, dtype=BRAIN),))
def looped_rows(x):
    return (x.float() * 2).sum(1), x.amax(1)


@case(lambda m: (m.x(8, 6, 50, 7),))
def inner_and_outer(x):
    return x.sum((1, 3)), x.mean((0, 2))


# -- norms and softmax --------------------------------------------------------------------------
@case(lambda m: (m.x(40, 192), m.x(192), m.x(192)))
def layer_norm(x, weight, bias):
    return functional.layer_norm(x, (192,), weight, bias)


@case(lambda m: (m.x(40, 192, dtype=HALF), m.x(192, dtype=HALF)))
def rms_norm(x, weight):
    return functional.rms_norm(x, (192,), weight)


@case(lambda m: (m.x(8, 6, 9, 9), m.x(6), m.x(6)), tolerance=1e-4)
def batch_norm(x, weight, bias):
    return functional.relu(functional.batch_norm(x, None, None, weight, bias, training=True))


@case(lambda m: (m.x(4, 8, 7, 7), m.x(8), m.x(8)), tolerance=1e-4)
def group_norm(x, weight, bias):
    return functional.group_norm(x, 4, weight, bias)


@case(lambda m: (m.x(30, 100),))
def unit_length(x):
    return functional.normalize(x, dim=1)


@case(lambda m: (m.x(35, 150),))
def softmax(x):
    return torch.softmax(x, 1), torch.log_softmax(x, 0)


@case(lambda m: (m.x(5, 40, 40), m.b(40, 40)))
def masked_softmax(x, keep):
    return torch.softmax(x.masked_fill(~keep, float("-inf")), -1).nan_to_num()


@case(lambda m: (m.x(64, 1000), m.i(64, high=1000)))
def cross_entropy(x, target):
    return functional.cross_entropy(x, target, label_smoothing=0.1)


@case(lambda m: (m.x(64, 30), m.x(64, 30)))
def losses(x, y):
    return (
        functional.mse_loss(x, y)
        + functional.smooth_l1_loss(x, y)
        + functional.binary_cross_entropy_with_logits(x, y)
    )


# -- scans and sorts ----------------------------------------------------------------------------
@case(lambda m: (m.x(20, 130),))
def cumulative_sum(x):
    return x.cumsum(1), x.cumsum(0)


@case(lambda m: (m.x(20000),), tolerance=1e-3)
def long_cumulative_sum(x):
    return x.cumsum(0)


@case(lambda m: (m.positive(20, 40),))
def cumulative_product(x):
    return x.cumprod(1)


@case(lambda m: (m.x(16, 60, grad=False),))
def cumulative_extremes(x):
    return torch.cummax(x, 1), torch.cummin(x, 1), torch.logcumsumexp(x, 1)


@case(lambda m: (m.x(24, 100),))
def sorted_rows(x):
    values, places = torch.sort(x, dim=1, stable=True)
    return values * 2, places


@case(lambda m: (m.i(24, 60, high=50, dtype=torch.int32),))
def sorted_integers(x):
    return torch.sort(x, dim=1, descending=True, stable=True)


# -- gather and scatter -------------------------------------------------------------------------
@case(lambda m: (m.x(100, 32), m.i(7, 9, high=100)))
def embedding(table, places):
    return functional.embedding(places, table) * 2


@case(lambda m: (m.x(30, 50), m.i(30, 12, high=50)))
def gather(x, places):
    return x.gather(1, places) + 1


@case(lambda m: (m.x(40, 20), m.i(15, high=40), m.i(20, high=20, low=-20)))
def indexed(x, rows, columns):
    return x[rows] + 1, x[:, columns].sum(1)


@case(lambda m: (m.x(30, 20), m.i(30, 20, high=10), m.x(30, 20)))
def scatter_added(x, places, source):
    return torch.zeros(10, 20, device=x.device).scatter_add(0, places, source) + x[:10]


@case(lambda m: (m.x(50, 8), m.i(200, high=50), m.x(200, 8)), tolerance=1e-4)
def put_and_accumulated(x, rows, source):
    return x.index_put((rows,), source, accumulate=True) * 2


@case(lambda m: (m.i(60, high=12), m.x(60, 12)))
def one_hot(places, x):
    return functional.one_hot(places, 12) * x


@case(lambda m: (m.x(20, 30), m.x(20, 10)))
def scattered_slices(x, y):
    return torch.slice_scatter(x, y, 1, 5, 25, 2) + 1, torch.select_scatter(x, y[:, 0], 1, 3)


# -- random numbers, sizes as arguments, products -----------------------------------------------
@case(lambda m: (m.x(100, 64),), random=True)
def dropout(x):
    return functional.dropout(x, 0.25, training=True)


@case(lambda m: (m.x(24, 31), m.x(31)), dynamic=True)
def any_size(x, bias):
    return torch.softmax(x + bias, 1).sum(0)


@case(lambda m: (m.x(1, 40), m.x(40)), dynamic=True)
def any_size_with_one(x, y):
    return (x * y + x.shape[0]).sum(1)


_TEMPLATES = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}


@case(lambda m: (m.x(64, 96), m.x(96, 80)), options=_TEMPLATES, tolerance=1e-4)
def product(x, y):
    return x @ y


@case(lambda m: (m.x(48, 64, dtype=HALF), m.x(64, 72, dtype=HALF), m.x(72, dtype=HALF)),
      options=_TEMPLATES, tolerance=1e-2)  # fmt: skip
def product_with_epilogue(x, y, bias):
    return torch.relu(x @ y + bias) * 2


@case(lambda m: (m.x(3, 40, 32), m.x(3, 32, 24)), options=_TEMPLATES, tolerance=1e-4)
def batch_of_products(x, y):
    return torch.bmm(x, y).exp()


@case(lambda m: (m.x(2, 3, 24, 16), m.x(2, 3, 24, 16), m.x(2, 3, 24, 16)), tolerance=1e-4)
def attention(q, k, v):
    scores = (q @ k.transpose(-1, -2)) * 0.25
    ones = torch.ones(24, 24, dtype=torch.bool, device=q.device)
    return torch.softmax(scores.masked_fill(~ones.tril(), float("-inf")), -1) @ v


@case(lambda m: (m.x(2, 4, 256, 64, dtype=HALF), m.x(2, 4, 256, 64, dtype=HALF),
                 m.x(2, 4, 256, 64, dtype=HALF)), tolerance=3e-2, cuda_only=True)  # fmt: skip
def flexible_attention(q, k, v):
    from torch.nn.attention.flex_attention import flex_attention

    def slanted(score, batch, head, row, column):
        bias = 0.1 * (column - row)
        return torch.where(row >= column, score + bias, float("-inf"))

    return flex_attention(q, k, v, score_mod=slanted)
