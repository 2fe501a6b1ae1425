# SPDX-License-Identifier: Apache-2.0
"""Inference in lockstep, thread and process: no request blocks, failures are reported."""

from __future__ import annotations

import importlib
import sys
import threading
import time

import numpy as np
import pytest
from inferences import awaited

from multipanda_py.exceptions import ConfigurationError, PolicyFailed
from multipanda_py.learning.policies import LockstepInference, ProcessInference, ThreadInference

MAKERS = """
import os, signal, time

def make_sum():
    return lambda observed: [observed["a"] + observed["b"]]

def make_pickled():
    return lambda observed: (one for one in [observed["a"]]) if observed["a"] else [observed["a"]]

def make_nothing():
    raise RuntimeError("no weights")

def make_slow():
    def slow(observed):
        time.sleep(observed["a"])
        return [observed["a"]]

    return slow

def make_dying():
    return lambda observed: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def makers(tmp_path, monkeypatch):
    """Module that other processes can import."""
    (tmp_path / "policies_for_tests.py").write_text(MAKERS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("policies_for_tests")
    del sys.modules["policies_for_tests"]


def test_lockstep_answer_arrives_once_after_its_latency():
    inference = LockstepInference(
        lambda observed: [observed["a"] + observed["b"]], latency=lambda k: 0.1 if k == 0 else 0.3
    )
    inference.request({"a": 1, "b": 2}, 5.0)
    assert inference.receive(5.05) is None
    assert inference.receive(5.1) == [3]
    assert inference.receive(5.2) is None
    inference.request({"a": 1, "b": 1}, 6.0)
    assert inference.receive(6.2) is None
    assert inference.receive(6.3) == [2]


def test_stalled_thread_blocks_nobody_and_late_answer_is_dropped():
    go = threading.Event()

    def slow(observed):
        if observed["a"] == 1:
            go.wait(20.0)
        return [observed["a"]]

    inference = ThreadInference(slow)
    try:
        inference.request({"a": 1}, 0.0)
        assert inference.receive(0.0) is None
        inference.discard()
        go.set()
        inference.request({"a": 2}, 0.0)
        assert awaited(inference) == [2]
    finally:
        inference.close()


def test_error_of_policy_in_thread_is_reported():
    inference = ThreadInference(lambda observed: observed["goal"])
    try:
        inference.request({}, 0.0)
        with pytest.raises(PolicyFailed, match=r"^policy: .*KeyError: 'goal'"):
            awaited(inference)
    finally:
        inference.close()


def test_exit_of_policy_ended_its_thread_without_message():
    inference = ThreadInference(lambda observed: sys.exit("two\nlines") if observed["a"] else [1])
    try:
        inference.request({"a": 1}, 0.0)
        with pytest.raises(PolicyFailed, match=r"^policy: .*SystemExit: two lines$"):
            awaited(inference)
        inference.request({"a": 0}, 0.0)
        assert awaited(inference) == [1]
    finally:
        inference.close()
    with pytest.raises(PolicyFailed, match="thread"):
        inference.request({"a": 0}, 0.0)


@pytest.mark.parametrize("latency", [-1.0, float("nan"), "soon", None])
def test_invalid_latency_is_rejected(latency):
    with pytest.raises(ConfigurationError, match=r"^latency: .*\b0 s\b"):
        LockstepInference(lambda observed: [1], latency)
    inference = LockstepInference(lambda observed: [1], lambda number: latency)
    with pytest.raises(PolicyFailed, match="latency: got"):
        inference.request({}, 0.0)


def test_unpicklable_answer_ended_policy_process(makers):
    inference = ProcessInference(makers.make_pickled)
    try:
        inference.request({"a": 1}, 0.0)
        with pytest.raises(PolicyFailed, match="TypeError: cannot pickle"):
            awaited(inference)
        inference.request({"a": 0}, 0.0)
        assert awaited(inference) == [0]
    finally:
        inference.close()


def test_process_policy_answers(makers):
    inference = ProcessInference(makers.make_sum)
    try:
        inference.request({"a": 1, "b": 2}, 0.0)
        assert awaited(inference) == [3]
    finally:
        inference.close()


def test_image_for_stalled_process_blocked_environment(makers):
    inference = ProcessInference(makers.make_slow)
    try:
        inference.request({"a": 1.0}, 0.0)
        inference.discard()  # The episode has ended.
        begun = time.monotonic()
        inference.request({"a": 0.0, "image": np.zeros(4_000_000, np.uint8)}, 0.0)
        assert inference.receive(0.0) is None
        assert time.monotonic() - begun < 0.5
        assert awaited(inference) == [0.0]
    finally:
        inference.close()


def test_killed_policy_process_is_reported(makers):
    inference = ProcessInference(makers.make_dying)
    try:
        inference.request({}, 0.0)
        with pytest.raises(PolicyFailed, match=r"-9\b"):
            awaited(inference)
    finally:
        inference.close()


def test_failed_creation_of_policy_is_reported(makers):
    with pytest.raises(PolicyFailed, match="RuntimeError: no weights"):
        ProcessInference(makers.make_nothing)
