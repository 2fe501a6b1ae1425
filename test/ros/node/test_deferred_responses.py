# SPDX-License-Identifier: Apache-2.0
"""What is answered to requests that failed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from multipanda_py.ros.node.deferred_responses import refuse

pytestmark = pytest.mark.inline


@pytest.mark.parametrize("word", ["message", "error"])
def test_a_request_of_franka_msgs_was_refused_without_a_word_when_the_node_ended(word):
    response = refuse(SimpleNamespace(success=True, **{word: ""}), "the node ends")
    assert (response.success, getattr(response, word)) == (False, "the node ends")
