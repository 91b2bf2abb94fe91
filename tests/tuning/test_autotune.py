from __future__ import annotations

import pickle
import threading
import warnings

import numpy as np
import pytest

import workbench as wb
from tests.runtime.kernels import add
from workbench import tl
from workbench.source import OptionError


def timings(order):
    """Return a stand-in for the clock: each call runs once, and takes what `order` says."""
    times = iter(order)

    def measure(call, quantiles):
        call()
        return [next(times)] * len(quantiles)

    return measure


def tuned(order, **options):
    configs = [wb.Config({"BLOCK": size}, num_warps=None, num_stages=None) for size in (2, 4, 8)]
    return wb.autotune(configs, key=["n"], do_bench=timings(order), **options)(add)


def on_cpu(kernel, *args, **given):
    """Launch on the interpreter through the tuner's own search."""
    kernel.fn = _Interpreting(add)
    return kernel.run(*args, **given)


class _Interpreting:
    """Runs each configuration in the interpreter, which the tuner itself never measures."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.arg_names = kernel.arg_names

    def run(self, *args, **given):
        return self.kernel.run(*args, **given, target="interpreter")


def grid(meta):
    return (wb.cdiv(meta["n"], meta["BLOCK"]),)


def test_the_fastest_configuration_is_launched(seven):
    x, y, out = seven
    kernel = tuned([3.0, 1.0, 2.0])
    on_cpu(kernel, x, y, out, 7, grid=grid)
    assert np.array_equal(out, x + y)
    assert kernel.best_config.kwargs == {"BLOCK": 4}
    assert [time[0] for time in kernel.configs_timings.values()] == [3.0, 1.0, 2.0]


def test_what_was_found_is_used_for_the_same_key(seven):
    x, y, out = seven
    kernel = tuned([3.0, 1.0, 2.0])
    for _ in range(2):
        on_cpu(kernel, x, y, out, 7, grid=grid)
    assert len(kernel.cache) == 1


def test_another_key_is_measured_again(seven):
    x, y, out = seven
    kernel = tuned([3.0, 1.0, 2.0, 1.0, 2.0, 3.0])
    on_cpu(kernel, x, y, out, 7, grid=grid)
    on_cpu(kernel, x, y, out, 6, grid=grid)
    assert kernel.best_config.kwargs == {"BLOCK": 2}
    assert len(kernel.cache) == 2


def test_a_value_given_twice_is_refused(seven):
    with pytest.raises(ValueError, match="BLOCK is given by the caller and by a configuration"):
        tuned([])[(1,)](*seven, 7, BLOCK=2)


@wb.jit
def accumulate(x_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask) + 1
    tl.store(x_ptr + offsets, x, mask=mask)
    tl.store(sum_ptr + offsets, tl.load(sum_ptr + offsets, mask=mask) + x, mask=mask)


ACCUMULATING = [wb.Config({"BLOCK": size}) for size in (8, 16)]


def test_values_are_restored_and_zeroed_between_trials():
    x, total = np.zeros(7, np.float32), np.full(7, 9, np.float32)
    options = {"restore_value": ["x_ptr"], "reset_to_zero": ["sum_ptr"], "rep": 1, "warmup": 1}
    kernel = wb.autotune(ACCUMULATING, key=["n"], **options)(accumulate)
    kernel[(1,)](x, total, 7)
    assert x.tolist() == [1] * 7
    assert total.tolist() == [1] * 7
    kernel[(1,)](x, total, 7)  # found before: nothing is restored or zeroed
    assert x.tolist() == [2] * 7
    assert total.tolist() == [3] * 7


def test_a_hook_of_the_users_replaces_zeroing():
    x, total, seen = np.zeros(7, np.float32), np.zeros(7, np.float32), []

    def hook(named, reset_only=False):
        seen.append(reset_only)
        named["x_ptr"].fill(0)

    kernel = wb.autotune(
        ACCUMULATING, key=["n"], reset_to_zero=["sum_ptr"], pre_hook=hook, do_bench=timings([2, 1])
    )(accumulate)
    kernel[(1,)](x, total, 7)
    assert seen == [False, False, True]
    assert total.tolist() == [3] * 7


def test_a_hook_after_trials_is_told_of_errors():
    seen = []
    kernel = wb.autotune(
        [wb.Config({"BLOCK": "bad"}), *ACCUMULATING],
        key=[],
        post_hook=lambda named, exception: seen.append(type(exception).__name__),
        do_bench=timings([1, 2]),
    )(accumulate)
    kernel[(1,)](np.zeros(7, np.float32), np.zeros(7, np.float32), 7)
    assert seen[1:] == ["NoneType", "NoneType"]
    assert seen[0] != "NoneType"


def test_a_configuration_that_fails_is_infinitely_slow(seven):
    def fails(call, quantiles):
        call()
        return [1.0] * len(quantiles)

    configs = [wb.Config({"BLOCK": size}, num_warps=None) for size in ("bad", 4)]
    kernel = wb.autotune(configs, key=[], do_bench=fails)(add)
    x, y, out = seven
    on_cpu(kernel, x, y, out, 7, grid=(2,))
    assert kernel.best_config.kwargs == {"BLOCK": 4}
    assert kernel.configs_timings[configs[0]][0] == float("inf")


def test_one_configuration_is_not_measured(seven):
    x, y, out = seven
    kernel = wb.autotune([wb.Config({"BLOCK": 4})], key=["n"])(add)
    kernel.interpret[(2,)](x, y, out, 7)
    assert np.array_equal(out, x + y)
    assert not kernel.configs_timings


def test_pruning(seven):
    x, y, out = seven
    prune = {
        "early_config_prune": lambda configs, named, **_: configs[1:],
        "perf_model": lambda BLOCK, **_: -BLOCK,
        "top_k": 1,
    }
    kernel = tuned([1.0], prune_configs_by=prune)
    on_cpu(kernel, x, y, out, 7, grid=grid)
    assert kernel.best_config.kwargs == {"BLOCK": 8}


def test_hooks_of_a_configuration_see_its_values(seven):
    x, y, out = seven
    seen = []
    config = wb.Config({"BLOCK": 4}, pre_hook=lambda named: seen.append(named["BLOCK"]))
    wb.autotune([config], key=[])(add).interpret[(2,)](x, y, out, 7)
    assert seen == [4]


def test_heuristics_compute_arguments_in_order():
    @wb.heuristics({"HALF": lambda named: named["n"] // 2, "WHOLE": lambda n: n["HALF"] * 2})
    @wb.jit
    def store(out_ptr, n, HALF: tl.constexpr, WHOLE: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, 2), HALF * 100 + WHOLE)

    out = np.zeros(2, np.int32)
    store.interpret[(1,)](out, 9)
    assert out.tolist() == [408, 408]


def test_configs_are_values():
    config = wb.Config({"BLOCK": 4}, num_warps=8)
    assert config == wb.Config({"BLOCK": 4}, num_warps=8)
    assert str(config) == "BLOCK: 4, num_warps: 8, num_ctas: 1, num_stages: 3, maxnreg: None"
    assert len({config, wb.Config({"BLOCK": 4}, num_warps=8)}) == 1


def test_one_configuration_that_is_left_is_not_measured(seven):
    x, y, out = seven
    prune = {"early_config_prune": lambda configs, named, **_: [configs[1]]}
    kernel = tuned([], prune_configs_by=prune)
    on_cpu(kernel, x, y, out, 7, grid=grid)
    assert kernel.best_config.kwargs == {"BLOCK": 4}


def test_no_configuration_that_is_left():
    kernel = tuned([], prune_configs_by={"early_config_prune": lambda *_, **__: []})
    with pytest.raises(wb.KernelError, match="early_config_prune left no configuration"):
        kernel[(1,)](*[np.zeros(7, np.float32)] * 3, 7)


@pytest.mark.parametrize(
    ("prune", "said"),
    [
        (lambda *_, **__: None, "early_config_prune returns a list of Config, got None"),
        (lambda *_, **__: [{"BLOCK": 4}], "returns a list of Config, got {'BLOCK': 4}"),
        (lambda configs: configs, r"early_config_prune\(configs, named_args, \*\*kwargs\)"),
    ],
)
def test_what_prunes_wrongly_says_how_it_is_called(prune, said):
    kernel = tuned([], prune_configs_by={"early_config_prune": prune})
    with pytest.raises(wb.KernelError, match=said):
        kernel[(1,)](*[np.zeros(7, np.float32)] * 3, 7)


def test_an_option_among_the_constexprs_of_a_config_is_told():
    with pytest.warns(UserWarning, match="num_warps=2 among a Config's constexprs gives way"):
        wb.Config({"BLOCK": 4, "num_warps": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wb.Config({"BLOCK": 4, "num_warps": 2}, num_warps=None)
        wb.Config({"BLOCK": 4, "num_warps": 2}, num_warps=2)


@pytest.mark.parametrize("given", [{"warps": 8}, {"stages": 1}, {"ctas": 2}])
def test_an_option_under_its_short_name_is_told_where_launches_refuse_it(given):
    def kernel(x, BLOCK: tl.constexpr):
        tl.store(x, BLOCK)

    def own(x, BLOCK: tl.constexpr, warps: tl.constexpr, stages: tl.constexpr, ctas: tl.constexpr):
        tl.store(x, BLOCK)

    (short,) = given
    config = wb.Config({"BLOCK": 4} | given, num_ctas=4)
    with pytest.warns(UserWarning, match=f"{short}=. among .* contradicts its option num_{short}"):
        wb.autotune([config], key=[])(wb.jit(kernel))
    free = wb.Config({"BLOCK": 4} | given, num_warps=None, num_stages=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wb.autotune([config], key=[])(wb.jit(own))
        wb.autotune([free], key=[])(wb.jit(kernel))


def test_a_heuristic_that_takes_nothing_says_how_it_is_called():
    kernel = wb.heuristics({"BLOCK": lambda: 4})(wb.jit(store_ones.fn))
    arrays = [np.zeros(4, np.float32)] * 2
    with pytest.raises(
        wb.KernelError, match=r"the heuristic for 'BLOCK' cannot be called: .*0 pos"
    ):
        kernel[(1,)](*arrays, 4)
    raising = wb.heuristics({"BLOCK": lambda args: len(3)})(wb.jit(store_ones.fn))
    with pytest.raises(TypeError, match="has no len"):
        raising[(1,)](*arrays, 4)


@pytest.mark.parametrize("found", [None, "fast", {}])
def test_a_model_that_gives_no_number_is_told(found):
    model = {"perf_model": lambda BLOCK, **_: found if BLOCK == 4 else 1.0, "top_k": 1}
    kernel = tuned([], prune_configs_by=model)
    with pytest.raises(wb.KernelError, match="perf_model returns a number for each Config, got "):
        kernel[(1,)](*[np.zeros(7, np.float32)] * 3, 7)


@wb.jit
def store_ones(first_ptr, second_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    if first_ptr is not None:
        tl.store(first_ptr + offsets, 1.0, mask=mask)
    else:
        tl.store(second_ptr + offsets, 1.0, mask=mask)


@pytest.mark.parametrize("option", ["reset_to_zero", "restore_value"])
def test_optional_arrays_may_be_none(option):
    out = np.full(7, 2, np.float32)
    options = {option: ["first_ptr"], "do_bench": timings([1, 2])}
    kernel = wb.autotune(ACCUMULATING, key=["n"], **options)(store_ones)
    kernel[(1,)](None, out, 7)
    assert out.tolist() == [1] * 7


def test_another_module_in_place_of_the_compilers_is_another_configuration():
    assert str(wb.Config({}, ir_override="a.ttir")) != str(wb.Config({}, ir_override="b.ttir"))


@pytest.mark.parametrize("option", ["reset_to_zero", "restore_value"])
def test_arrays_to_be_kept_are_parameters(option):
    out = np.zeros(7, np.float32)
    options = {option: ["frist_ptr"], "do_bench": lambda call, quantiles: call() or [1] * 3}
    with pytest.raises(OptionError, match=f"{option} names 'frist_ptr', which is no parameter"):
        wb.autotune(ACCUMULATING, key=["n"], **options)(store_ones)
    with pytest.raises(wb.KernelError, match=f"{option} is a list of parameters' names"):
        wb.autotune(ACCUMULATING, key=["n"], **{option: "first_ptr"})(store_ones)
    options[option] = ["n"]  # a number is not changed
    kernel = wb.autotune(ACCUMULATING, key=["n"], **options)(store_ones)
    kernel[(1,)](out, None, 7)
    assert out.tolist() == [1] * 7


def test_a_name_in_the_key_that_is_no_parameter_is_passed_over_and_told():
    with pytest.warns(UserWarning, match="key names 'zz', which is no parameter of store_ones"):
        kernel = decorated(key=["n", "zz"])
    assert kernel.keys == ["n"]


def test_a_launch_without_a_grid_says_how_it_is_written():
    out, kernel = np.zeros(8, np.float32), decorated()
    two = wb.autotune([wb.Config({"BLOCK": 8}), wb.Config({"BLOCK": 4})], key=["n"])(store_ones)
    for tuned in (kernel, two, wb.heuristics({"BLOCK": lambda named: 8})(store_ones)):
        with pytest.raises(wb.KernelError, match="is launched with a grid") as caught:
            tuned(out, None, 8)
        assert caught.value.hint == "write store_ones[grid](...)"
        with pytest.raises(wb.KernelError, match="is launched with a grid"):
            tuned.run(out, None, 8)


def test_words_of_pruning_that_are_none_are_unset_and_integers_of_numpy_are_integers():
    none = dict.fromkeys(("early_config_prune", "perf_model", "top_k"))
    assert decorated(prune_configs_by=none).configs_top_k == 1.0
    pruning = {"perf_model": lambda **named: named["BLOCK"], "top_k": np.int64(1)}
    assert len(decorated(prune_configs_by=pruning).prune_configs({})) == 1


def decorated(**options):
    return wb.autotune([wb.Config({"BLOCK": 8})], **{"key": ["n"]} | options)(store_ones)


@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (lambda: decorated(prune_configs_by={"prune": len}), "K112", "got 'prune'"),
        (lambda: decorated(prune_configs_by=[len]), "K105", "a dict of early_config_prune"),
        (lambda: decorated(prune_configs_by={"perf_model": 3}), "K105", "is a function, got 3"),
        (lambda: decorated(prune_configs_by={"top_k": "a"}), "K105", "top_k is an int"),
        (lambda: decorated(prune_configs_by={"top_k": 0}), "K105", "top_k is an int from 1 on"),
        (lambda: decorated(prune_configs_by={"top_k": -0.5}), "K105", "top_k is an int from 1"),
        (lambda: decorated(keys=["n"]), "K220", "no option 'keys'; did you mean key?"),
        (lambda: decorated(pre_hook="a"), "K105", "pre_hook is a function, got 'a'"),
        (lambda: decorated(post_hook=3), "K105", "post_hook is a function, got 3"),
        (lambda: decorated(do_bench=[1.0]), "K105", "do_bench is a function, got [1.0]"),
        (lambda: decorated(warmup="a"), "K105", "warmup is a number of milliseconds, got 'a'"),
        (lambda: decorated(rep=-1), "K105", "rep is a number of milliseconds, got -1"),
        (lambda: wb.Config({}, pre_hook=3), "K105", "pre_hook of a Config is a function"),
        (lambda: decorated(num_warps=4), "K220", "autotune has no option 'num_warps'"),
        (lambda: wb.autotune([wb.Config({})]), "K220", "is missing 1 required positional"),
        (lambda: wb.heuristics({"ZZ": len})(store_ones), "K112", "heuristics names 'ZZ'"),
        (lambda: wb.heuristics(store_ones), "K105", "heuristics takes functions by name"),
        (lambda: wb.Config({}, BLOCK=4), "K220", "Config has no option 'BLOCK'"),
        (lambda: wb.Config(num_warps=4), "K220", "Config is missing"),
        (lambda: wb.jit(num_warps=4), "K220", "jit has no option 'num_warps'"),
        (lambda: wb.jit(decorated()), "K105", "jit takes a Python function"),
        (lambda: wb.kernel(num_warps=4), "K220", "kernel has no option 'num_warps'"),
        (lambda: wb.kernel((1,)), "K105", "jit takes a Python function"),
    ],
)
def test_decorators_say_what_they_take(make, code, says):
    with pytest.raises(wb.KernelError) as caught:
        make()
    assert caught.value.code == code
    assert says in caught.value.message
    assert caught.value.hint


def test_heuristics_may_choose_options():
    out = np.zeros(7, np.float32)
    kernel = wb.heuristics({"num_warps": lambda args: 2, "BLOCK": lambda args: 8})(store_ones)
    kernel[(1,)](out, None, 7)
    assert out.tolist() == [1] * 7


def odd(call, quantiles):
    call()
    return


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pre_hook": lambda: None}, "pre_hook cannot be called"),
        ({"post_hook": lambda named: None}, "post_hook cannot be called"),
        ({"do_bench": lambda call: 1.0}, "do_bench cannot be called"),
        ({"do_bench": odd}, "do_bench returns milliseconds: a number, or a list of them, got None"),
        ({"do_bench": lambda call, quantiles: []}, r"got \[\] \(a list\)"),
        ({"do_bench": lambda call, quantiles: ["a"]}, r"got \['a'\]"),
    ],
)
def test_functions_of_users_that_cannot_be_used_are_told(options, says, seven):
    x, y, out = seven
    kernel = tuned([1.0, 2.0, 3.0], **options) if "do_bench" not in options else None
    if kernel is None:
        configs = [wb.Config({"BLOCK": size}) for size in (2, 4)]
        kernel = wb.autotune(configs, key=["n"], **options)(add)
    with pytest.raises(OptionError, match=says) as caught:
        on_cpu(kernel, x, y, out, 7, grid=grid)
    assert isinstance(caught.value, TypeError)
    assert caught.value.code == "K105"
    assert caught.value.hint


def test_a_hook_of_a_configuration_that_cannot_be_called_ends_the_search():
    configs = [wb.Config({"BLOCK": 4}), wb.Config({"BLOCK": 8}, pre_hook=lambda: None)]
    kernel = wb.autotune(configs, key=["n"], cache_results=False)(store_ones)
    with pytest.raises(OptionError, match="pre_hook of a Config cannot be called"):
        kernel[(1,)](np.zeros(8, np.float32), None, 7)


def test_times_that_are_none_are_infinite_and_arrays_are_times(seven):
    x, y, out = seven
    times = iter([[float("nan")] * 3, np.array([2.0, 1.0, 3.0]), 5])
    configs = [wb.Config({"BLOCK": size}) for size in (2, 4, 8)]
    measure = {"do_bench": lambda call, quantiles: next(times)}
    kernel = wb.autotune(configs, key=["n"], **measure)(add)
    on_cpu(kernel, x, y, out, 7, grid=grid)
    assert kernel.best_config.kwargs == {"BLOCK": 4}


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, np.zeros(3)])
def test_a_value_that_no_key_can_hold_is_told(value):
    kernel = wb.autotune(ACCUMULATING, key=["second_ptr"])(store_ones)
    with pytest.raises(OptionError, match="second_ptr of store_ones is in the key") as caught:
        kernel[(1,)](np.zeros(8, np.float32), value, 7)
    assert isinstance(caught.value, TypeError)


def test_launches_of_other_threads_take_no_argument_away():
    sizes = [5, 7]
    kernel, pairs = None, {n: (np.zeros(n, np.float32), np.zeros(n, np.float32)) for n in sizes}

    def measure(call, quantiles):
        call()
        if kernel.cache:  # this search is the second: what was found before is launched meanwhile
            x, total = pairs[5]
            thread = threading.Thread(target=lambda: kernel[(1,)](x, total, 5))
            thread.start()
            thread.join(60)
            assert not thread.is_alive()
        return [1.0] * len(quantiles)

    options = {"restore_value": ["x_ptr"], "reset_to_zero": ["sum_ptr"], "do_bench": measure}
    kernel = wb.autotune(ACCUMULATING, key=["n"], **options)(accumulate)
    for n in sizes:
        kernel[(1,)](*pairs[n], n)
    assert pairs[7][0].tolist() == [1] * 7
    assert pairs[5][0].tolist() == [3] * 5


def test_one_thread_searches_at_a_time():
    """Trials of two would measure each other, and put back each other's arrays."""
    among: list[int] = []
    most: list[int] = []
    second = threading.Event()

    def measure(call, quantiles):
        among.append(1)
        most.append(len(among))
        if len(most) > 1:
            second.set()
        second.wait(0.2)
        call()
        among.pop()
        return [1.0] * len(quantiles)

    options = {"restore_value": ["x_ptr"], "reset_to_zero": ["sum_ptr"], "do_bench": measure}
    kernel = wb.autotune(ACCUMULATING, key=["n"], **options)(accumulate)
    arrays = [(np.zeros(n, np.float32), np.zeros(n, np.float32)) for n in (5, 7, 7)]
    threads = [
        threading.Thread(target=lambda x=x, t=t: kernel[(1,)](x, t, x.size)) for x, t in arrays
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert len(most) == 4  # two keys, two configurations: the third thread finds what was found
    for x, _ in arrays:
        assert x.tolist() == [1] * x.size


def test_a_tuned_kernel_is_pickled_whole():
    kernel = tuned([1.0, 2.0, 3.0])
    again = pickle.loads(pickle.dumps(kernel))
    assert again.nargs is None
    assert [config.kwargs for config in again.configs] == [c.kwargs for c in kernel.configs]
