"""Python searches seldom for cycles while a kernel is compiled, and as ever before and after."""

import gc
import os
import threading

import pytest

from workbench.collecting import rarely_collected


@pytest.fixture(autouse=True)
def usual():
    before, python_s = gc.get_threshold(), (700, 10, 10)
    gc.set_threshold(*python_s)
    yield python_s
    gc.set_threshold(*before)


def test_within_the_block_more_objects_are_made_between_two_searches(usual):
    with rarely_collected():
        assert gc.get_threshold() == (60_000, *usual[1:])
        with rarely_collected():
            assert gc.get_threshold() == (60_000, *usual[1:])
        assert gc.get_threshold() == (60_000, *usual[1:])
    assert gc.get_threshold() == usual


def test_an_error_ends_it(usual):
    with pytest.raises(KeyError), rarely_collected():
        raise KeyError
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("own", [(0, 10, 10), (150_000, 5, 5)])
def test_who_searches_less_or_never_goes_on_to(own):
    gc.set_threshold(*own)
    with rarely_collected():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_what_somebody_sets_within_the_block_stays():
    with rarely_collected():
        gc.set_threshold(123, 4, 5)
    assert gc.get_threshold() == (123, 4, 5)


def test_the_last_of_several_threads_ends_it(usual):
    within, over = threading.Event(), threading.Event()

    def other() -> None:
        with rarely_collected():
            within.set()
            over.wait()

    thread = threading.Thread(target=other)
    with rarely_collected():
        thread.start()
        within.wait()
    assert gc.get_threshold()[0] == 60_000
    over.set()
    thread.join()
    assert gc.get_threshold() == usual


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_of_a_fork_searches_as_ever(usual):
    within, over = threading.Event(), threading.Event()

    def other() -> None:
        with rarely_collected():
            within.set()
            over.wait()

    thread = threading.Thread(target=other)
    thread.start()
    within.wait()
    child = os.fork()
    if not child:
        right = gc.get_threshold() == usual
        with rarely_collected():
            right = right and gc.get_threshold()[0] == 60_000
        os._exit(0 if right and gc.get_threshold() == usual else 1)
    over.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
