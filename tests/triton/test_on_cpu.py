"""`as_triton(cuda="cpu")`: idioms of libraries that know CUDA alone, and what is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import workbench as wb
from workbench import tl
from workbench.source import KernelError, OptionError

torch = pytest.importorskip("torch")
F = torch.nn.functional


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    with wb.as_triton(cuda="cpu") as triton:
        yield triton


@wb.jit
def scale_kernel(x, out, n, by, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n) * by, mask=i < n)


def scale(x: torch.Tensor, by: float) -> torch.Tensor:
    assert x.is_cuda, "CUDA only"
    assert x.device.type == "cuda"
    out = torch.empty_like(x)
    with torch.cuda.device(x.device):
        scale_kernel[(triton_cdiv(x.numel(), 64),)](x, out, x.numel(), by, B=64)
    assert out.is_cuda
    return out


def triton_cdiv(a: int, b: int) -> int:
    return -(-a // b)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return scale(x, by)

    @staticmethod
    def backward(ctx, gradient):
        assert gradient.is_cuda
        return scale(gradient.contiguous(), ctx.by), None


@pytest.mark.usefixtures("pretended")
def test_ways_to_make_a_tensor_for_cuda():
    device = torch.device("cuda")
    like = torch.ones(3, device="cuda")
    for x in (
        torch.randn(3, device="cuda"), torch.empty((3,), device=device),
        torch.tensor([1], device=0),
               torch.arange(3, device="cuda:0"), torch.zeros(3).cuda(), torch.zeros(3).to("cuda"),
        torch.zeros(3).to(device, torch.float16), torch.zeros(3).to(device=device),
        torch.zeros(3).to(like), torch.zeros(3).to(0), like.new_zeros(4), torch.zeros_like(like),
        like + 1, like[None].mT, torch.cat([like, like]), like.half().float(), like.clone(),
        torch.full((2,), 3, device=like.device), torch.as_tensor([1.0], device="cuda"),
        torch.randint(0, 3, (2,), device="cuda", generator=torch.Generator(device="cuda")),
    ):  # fmt: skip
        assert x.is_cuda
        assert (x.device.type, x.device.index) == ("cuda", 0)
        assert not x.is_cpu
    with device:
        assert torch.ones(2).is_cuda
    for x in (torch.zeros(3), like.cpu(), like.to("cpu"), torch.zeros(3) + 1, torch.zeros(3)[:2]):
        assert not x.is_cuda
        assert x.device == torch.device("cpu")


@pytest.mark.usefixtures("pretended")
def test_cuda_by_default():
    try:
        torch.set_default_device("cuda")
        assert torch.get_default_device() == torch.device("cuda:0")
        made = torch.zeros(3), torch.rand(2), torch.tensor([1.0]), torch.arange(4)
        assert all(x.is_cuda for x in made)
        assert not torch.zeros(3, device="cpu").is_cuda
    finally:
        torch.set_default_device(None)
    assert not torch.zeros(3).is_cuda


@pytest.mark.usefixtures("pretended")
def test_classes_around_tensors_lie_where_these_do():
    class Held:
        def __init__(self, of):
            self.of, self.device = of, of.device

        def __getattr__(self, name):
            if name in ("get_device", "of"):
                raise AttributeError(name)
            return getattr(self.of, name)

    x, out = torch.arange(4, device="cuda"), torch.zeros(4, dtype=torch.int64, device="cuda")
    scale_kernel[(1,)](Held(x), out, 4, 2, B=4)
    assert out.tolist() == [0, 2, 4, 6]


@pytest.mark.usefixtures("pretended")
def test_a_copy_on_the_other_side_is_a_copy():
    host = torch.ones(4)
    there = host.cuda()
    there += 1
    assert host.tolist() == [1] * 4
    assert there.cuda() is there
    back = there.cpu()
    back += 1
    assert there.tolist() == [2] * 4


@pytest.mark.usefixtures("pretended")
def test_what_is_set_on_a_tensor_does_not_move_it():
    there, here = torch.ones(4, device="cuda"), torch.ones(4)
    for x, cuda in ((there, True), (here, False)):
        x.requires_grad = True
        assert x.is_cuda is cuda
        (x * x).sum().backward()
        x.grad = None
        assert x.is_cuda is cuda
        x.grad = torch.ones(4, device=x.device)
        assert x.is_cuda is x.grad.is_cuda is cuda
    there.data = here.data
    assert not there.is_cuda
    there.data = torch.ones(4, device="cuda")
    assert there.is_cuda


@pytest.mark.usefixtures("pretended")
def test_kernels_run_and_gradients_flow():
    x = torch.randn(100, device="cuda", requires_grad=True)
    y = Scale.apply(x, 3.0)
    y.sum().backward()
    assert torch.equal(y, x * 3)
    assert x.grad is not None
    assert x.grad.is_cuda
    assert torch.equal(x.grad, torch.full_like(x, 3.0))


@pytest.mark.usefixtures("pretended")
def test_programs_that_torchs_compiler_wrote():
    from torch._C import _cuda_getCurrentRawStream as get_raw_stream

    empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        x, out = torch.ones(6, device="cuda"), empty_strided_cuda((3, 2), (2, 1), torch.float32)
        scale_kernel[(1,)](x, out, 6, 2.0, B=8, stream=get_raw_stream(0))
    assert out.is_cuda
    assert out.stride() == (2, 1)
    assert torch.equal(out, torch.full((3, 2), 2.0, device="cuda"))


@pytest.mark.usefixtures("pretended")
def test_models_move():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)).cuda()
    assert all(p.is_cuda for p in model.parameters())
    found = model(torch.randn(2, 4, device="cuda"))
    assert found.is_cuda
    assert model.to("cpu")[0].weight.device.type == "cpu"
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert F.linear(found, found).dtype == torch.bfloat16


@pytest.mark.usefixtures("pretended")
def test_questions_about_the_device(pretended):
    cuda = torch.cuda
    assert cuda.is_available()
    assert (cuda.device_count(), cuda.current_device()) == (1, 0)
    with cuda._DeviceGuard(0), cuda.device(0):
        assert cuda.current_device() == 0
    assert cuda.get_device_capability() == cuda.get_device_capability("cuda:0") == (9, 0)
    assert cuda.get_device_properties(0).multi_processor_count > 0
    assert "CPU" in cuda.get_device_name(torch.device("cuda"))
    target = pretended.runtime.driver.active.get_current_target()
    assert (target.backend, target.arch) == ("cuda", 90)
    stream, start, end = cuda.Stream(), cuda.Event(enable_timing=True), cuda.Event()
    with cuda.stream(stream):
        start.record()
        stream.wait_stream(cuda.current_stream())
    end.record()
    cuda.synchronize()
    assert start.elapsed_time(end) >= 0
    cuda.manual_seed(3)
    one = torch.rand(3, device="cuda")
    cuda.manual_seed_all(3)
    assert torch.equal(one, torch.rand(3, device="cuda"))
    assert cuda.max_memory_allocated() == 0
    with pytest.raises(KernelError, match="CUDA graphs are not there"):
        cuda.CUDAGraph()
    assert pretended.testing.do_bench(lambda: scale(one, 2.0), warmup=1, rep=1) > 0


@pytest.mark.usefixtures("pretended")
def test_kernels_are_found_under_the_device_that_is_asked_for():
    kernel = wb.jit(scale_kernel.fn)
    x = torch.ones(4, device="cuda")
    kernel[(1,)](x, torch.empty_like(x), 4, 2.0, B=4)
    cache = kernel.device_caches[torch.cuda.current_device()][0]
    assert len(cache) == 1
    cache.clear()
    assert not kernel.device_caches[0][0]


@pytest.mark.usefixtures("pretended")
def test_threads_that_start_meanwhile():
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.ones(2, device="cuda").is_cuda))
    thread.start()
    thread.join()
    assert found == [True]


def test_everything_is_put_back(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    places = (torch, torch.cuda, torch.version, torch.autocast, threading.Thread)
    before = [dict(vars(place)) for place in places]
    available = torch.cuda.is_available()
    with wb.as_triton(cuda="cpu"):
        inside = torch.ones(2, device="cuda")
        with wb.as_triton(cuda="cpu"):
            assert torch.ones(2).cuda().is_cuda
        assert inside.is_cuda
    for place, names in zip(places, before, strict=True):
        changed = [n for n in names if vars(place).get(n) is not names[n]]
        assert not changed, (place, changed)
        assert not set(vars(place)) - set(names) - {"Tensor"}, place
    assert inside.device.type == "cpu"
    assert not inside.is_cuda
    assert torch.cuda.is_available() == available


def test_only_the_cpu_answers():
    with pytest.raises(OptionError, match='cuda is "cpu"'):
        wb.as_triton(cuda="gpu")  # type: ignore[arg-type]


def test_warmup_for_a_chip_takes_arrays_of_the_host():
    x = torch.zeros(64)
    kernel = scale_kernel.warmup(x, x, 64, 2.0, B=64, grid=(1,), target="sm_90a")
    assert kernel.target == "sm_90a"
    assert ".target sm_90a" in kernel.asm["ptx"]
    assert not x.any()


def test_it_lasts_although_nobody_keeps_what_it_returns():
    """As a script calls it, in a line of its own."""
    text = (
        "import gc, workbench; workbench.as_triton(cuda='cpu'); gc.collect(); "
        "import torch, triton; print(torch.ones(2, device='cuda').is_cuda, triton.__name__)"
    )
    run = [sys.executable, "-c", text]
    said = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300).stdout
    assert said == "True workbench.triton\n"


def test_torchs_compiler():
    """What is given to it runs as it is meanwhile; and what it is told to leave alone.

    It has a rule for each function of torch, which it knows by the function.
    """
    text = (
        "import workbench as wb, torch, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "def twice(x):\n"
        "    assert x.is_cuda\n"
        "    return x + torch.ones(x.shape, device='cuda')\n"
        "made = []\n"
        "kept = lambda graph, _: made.append(graph) or graph\n"
        "before = torch.compile(twice, backend=kept)\n"
        "with wb.as_triton(cuda='cpu'):\n"
        "    x = torch.ones(2, device='cuda')\n"
        "    model = torch.compile(torch.nn.Linear(2, 2, device='cuda'))\n"
        "    found = before(x), torch.compile(twice)(x), torch.compile()(twice)(x), model(x)\n"
        "    print(all(y.is_cuda for y in found), found[0].tolist(), len(made))\n"
        "    f = torch.compiler.disable(lambda x: x + 1)\n"
        "    print(f(torch.ones(1, device='cuda')).item(), torch.cuda.current_device())\n"
        "after = torch.compile(lambda x: x + 1, backend=kept)\n"
        "print(after(torch.ones(1)).item(), len(made))"
    )
    run = [sys.executable, "-c", text]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert done.stdout == "True [2.0, 2.0] 0\n2.0 0\n2.0 1\n", done.stderr


@pytest.mark.usefixtures("pretended")
def test_it_is_said_that_nothing_is_compiled():
    with pytest.warns(UserWarning, match="functions run as they are"):
        torch.compile(lambda x: x)


@pytest.mark.usefixtures("pretended")
def test_kernels_ask_cudas_generator_for_a_seed_and_an_offset():
    torch.manual_seed(7)
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    state = generator.get_state()
    assert not state.is_cuda
    seed, offset = state.view(torch.int64)
    assert (int(seed), int(offset)) == (7, 0)
    state.view(torch.int64)[1] += 12
    generator.set_state(state)
    assert (generator.initial_seed(), generator.get_offset()) == (7, 12)
    torch.manual_seed(8)
    assert generator.get_state().view(torch.int64).tolist() == [8, 0]
    generator.manual_seed(3).set_offset(4)
    assert generator.get_state().view(torch.int64).tolist() == [3, 4]
